"""When a commit is due."""

from __future__ import annotations

import pytest

from semel.core.land.bounds import CommitBounds
from semel.errors import ConfigError


@pytest.mark.parametrize(
    ("rows", "size_bytes", "age_ms", "is_due"),
    [(9, 99, 999, False), (10, 0, 0, True), (0, 100, 0, True), (0, 0, 1000, True), (0, 0, 0, False)],
)
def test_a_commit_is_due_once_one_bound_is_reached(
    rows: int, size_bytes: int, age_ms: int, is_due: bool
) -> None:
    assert CommitBounds(10, 100, 1000).is_due(rows, size_bytes, age_ms) is is_due


def test_no_bound_is_zero() -> None:
    with pytest.raises(ConfigError, match="at least one row"):
        CommitBounds(every_ms=0)
