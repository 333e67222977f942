"""The bar of work that lasts, on a real terminal; nothing anywhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from semel.cli.progress import rows_progress
total = {total}
with rows_progress("read", total) as progress:
    for _ in range(4):
        progress(50)
        time.sleep(0.2)
"""


def shown(total: int | None) -> str:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(total=total)],
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            text += chunk
        assert process.wait(30) == 0
    os.close(ours)
    return text.decode()


@pytest.mark.parametrize(("total", "there", "not_there"), [(None, "200", "/?"), (400, "200/400", "/?")])
def test_a_total_is_shown_where_it_is_known(total: int | None, there: str, not_there: str) -> None:
    text = shown(total)
    assert there in text
    assert not_there not in text


def test_without_a_terminal_there_is_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(total=None)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
