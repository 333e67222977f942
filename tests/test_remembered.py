"""docs/remembered.md: every row names tests, and they are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "remembered.md"
LINES = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
CELLS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES]
ROWS = [row for row in CELLS if row[0] != "remembered"]


@pytest.fixture(scope="module")
def names() -> set[str]:
    return {name for path in TESTS.rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_a_test(row: list[str], names: set[str]) -> None:
    assert len(row) == 6
    found = re.findall(r"`(tests/[^`]+|test_\w+)`", row[-1])
    assert found
    for each in found:
        assert each in names or (TESTS.parent / each).is_file(), f"there is no {each}"
