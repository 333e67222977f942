from __future__ import annotations

import logging
import resource
import subprocess
import sys

import pytest

from semel.config import ServerSettings
from semel.server.limits import fitted


def test_bounds_that_fit_stay_and_are_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    settings = ServerSettings(partitions_max=100, connections_max=50)
    with caplog.at_level(logging.INFO, "semel.server.limits"):
        assert fitted(settings, 100_000) is settings
    assert caplog.messages == []


def test_no_more_partitions_and_connections_than_open_files() -> None:
    cut = fitted(ServerSettings(), 1024)
    assert (cut.partitions_max, cut.connections_max) == (128, 256)


def test_only_what_was_cut_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "semel.server.limits"):
        cut = fitted(ServerSettings(partitions_max=200, connections_max=50), 1024)
    assert (cut.partitions_max, cut.connections_max) == (128, 50)
    assert caplog.messages == ["only 1024 open files are allowed: max.partitions is 128 instead of 200"]


def test_a_default_that_does_not_fit_is_no_news_at_every_start(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "semel.server.limits"):
        assert fitted(ServerSettings(), 20_000).partitions_max == 2500
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


@pytest.mark.slow
def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource; from semel.server.limits import raise_open_files_max as up;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}));"
        "print(up() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
