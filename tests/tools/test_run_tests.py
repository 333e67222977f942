"""Every part runs, and one line at the end counts them together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "run_tests.py"

SMALL = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_passes(number): pass

@pytest.mark.parametrize("number", range(2))
def test_lacks_a_part(number): pytest.skip("no kcat on the PATH")
"""
JVM = """
import pytest

@pytest.mark.jvm
def test_starts_a_jvm(): pass

@pytest.mark.jvm
@pytest.mark.thorough
def test_starts_another(): pass
"""
ALONE = """
import pytest

@pytest.mark.alone
def test_fills_the_machine(): pass
"""
IDLE = """
import os
import pytest

@pytest.mark.idle
def test_computes(): assert os.nice(0) == 19
"""
FAILS = "def test_fails(): assert False\n"


def run(folder: Path, *options: str, **files: str) -> tuple[int, list[str]]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    jvm\n    alone\n    idle\n    thorough\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, str(SCRIPT), "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_what_could_not_run_is_told_once_above_the_count(tmp_path: Path) -> None:
    exit_code, lines = run(tmp_path, small=SMALL, jvm=JVM, alone=ALONE, idle=IDLE)
    assert exit_code == 0
    assert lines[-2:] == ["no kcat on the PATH (2 tests)", "6 passed, 0 failed, 2 skipped"]


@pytest.mark.slow
def test_a_failure_of_the_first_part_is_told_after_the_last(tmp_path: Path) -> None:
    exit_code, lines = run(tmp_path, small=FAILS, jvm=JVM, alone=ALONE, idle=IDLE)
    assert exit_code == 1
    assert lines[-2:] == ["FAILED test_small::test_fails: assert False", "3 passed, 1 failed, 0 skipped"]


@pytest.mark.slow
def test_what_is_left_out_of_long_rows_is_run_when_asked_for(tmp_path: Path) -> None:
    exit_code, lines = run(tmp_path, "--thorough", small=SMALL, jvm=JVM, alone=ALONE, idle=IDLE)
    assert exit_code == 0
    assert lines[-1] == "7 passed, 0 failed, 2 skipped"


def test_a_part_that_never_began_is_a_failure(tmp_path: Path) -> None:
    exit_code, lines = run(tmp_path, "--no-such-option")
    assert exit_code != 0
    assert lines[-2:] == [
        "FAILED -m idle and not thorough: pytest ended with exit code 4",
        "0 passed, 4 failed, 0 skipped",
    ]
