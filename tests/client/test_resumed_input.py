"""The rows of an input behind the saved position."""

from __future__ import annotations

import pytest

from semel.client.resumed_input import ResumedInput
from semel.core.client.progress import Progress
from semel.core.client.saved import Position, SavedIdentity
from semel.errors import ConfigError, InputDiffers


def resumed(position: Position) -> ResumedInput:
    return ResumedInput(Progress(SavedIdentity("loader", 7, 0, position), 0), compare_rows=True)


def test_rows_are_numbered_as_they_come() -> None:
    fresh = resumed(None)
    assert list(fresh.rows("abc")) == [(0, "a"), (1, "b"), (2, "c")]
    assert (fresh.passed_over, fresh.has_ended) == (0, True)


def test_what_is_stored_is_passed_over() -> None:
    behind = resumed(1)
    assert list(behind.rows("abcd")) == [(2, "c"), (3, "d")]
    assert behind.passed_over == 2


def test_an_input_is_asked_for_what_follows_its_position() -> None:
    behind = resumed("page 2")
    asked: list[Position] = []

    def rows(position: Position) -> list[tuple[Position, str]]:
        asked.append(position)
        return [("page 2", "stored"), ("page 3", "new"), ("page 2", "another of that name")]

    assert list(behind.rows(rows)) == [("page 3", "new"), ("page 2", "another of that name")]
    assert (asked, behind.passed_over) == (["page 2"], 1)


def test_an_input_that_ends_in_front_of_what_is_stored_is_another() -> None:
    behind = resumed(4)
    with pytest.raises(InputDiffers, match="has 2 rows, but row 4"):
        list(behind.rows("ab"))
    assert not behind.has_ended


def test_rows_are_not_counted_behind_a_position_that_is_no_number() -> None:
    with pytest.raises(ConfigError, match="'page 2' is no row number"):
        list(resumed("page 2").rows("ab"))
