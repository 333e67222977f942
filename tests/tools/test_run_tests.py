"""A level runs its tests and what reads the sources, and says what both took."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.run_tests import LEVELS, pytest_command

SCRIPT = Path(__file__).parents[2] / "tools" / "run_tests.py"

TESTS = """
import pytest

def test_passes(): pass

@pytest.mark.slow
def test_starts_a_server(): pass

@pytest.mark.thorough
def test_takes_long(): assert False

@pytest.mark.parametrize("number", range(2))
def test_lacks_a_part(number): pytest.skip("no kcat on the PATH")
"""


def run(folder: Path, level: str, tests: str = TESTS) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    thorough\n")
    (folder / "test_all.py").write_text(tests)
    command = pytest_command(LEVELS[level].marks, "-p", "no:cacheprovider", "-ra", workers=1)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("level", "passed"), [("check", 1), ("test", 2)])
def test_a_level_has_its_tests_and_what_could_not_run_is_one_line(
    tmp_path: Path, level: str, passed: int
) -> None:
    exit_code, said = run(tmp_path, level)
    assert exit_code == 0
    assert f"{passed} passed, 2 skipped" in said
    assert [line for line in said.splitlines() if "kcat" in line] == [
        "SKIPPED [2] test_all.py:13: no kcat on the PATH"
    ]


@pytest.mark.slow
def test_a_level_that_there_is_not_is_told_with_those_that_there_are() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "everything"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "check|test" in done.stderr
