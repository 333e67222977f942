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


PARTS = """
import time
from semel.cli.progress import parts_progress
with parts_progress() as begin:
    for name, total in (("in", 200), ("out", None), ("compare", None)):
        progress = begin(name, total)
        for _ in range(4):
            progress(50)
            time.sleep(0.1)
"""


def shown(total: int | None) -> str:
    return on_a_terminal(PROGRAM.format(total=total))


def on_a_terminal(program: str) -> str:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
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


def test_each_part_has_a_bar_of_its_own() -> None:
    text = on_a_terminal(PARTS)
    for name in ("in", "out", "compare"):
        assert f"{name} " in text
    assert text.count("200 rows") >= 2


@pytest.mark.parametrize("program", [PROGRAM.format(total=None), PARTS])
def test_without_a_terminal_there_is_none(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
