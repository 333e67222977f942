from __future__ import annotations

import resource
import subprocess
import sys

from semel.config import ServerSettings
from semel.server.limits import fitted


def test_bounds_that_fit_stay() -> None:
    settings = ServerSettings(partitions_max=100, connections_max=50)
    assert fitted(settings, 100_000) is settings


def test_no_more_partitions_and_connections_than_open_files() -> None:
    cut = fitted(ServerSettings(), 1024)
    assert (cut.partitions_max, cut.connections_max) == (128, 256)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource; from semel.server.limits import raise_open_files_max as up;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}));"
        "print(up() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
