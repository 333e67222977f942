"""What a state knows after a move, and moves that are in no table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from semel.core.moves import made_anew, moved


class Event(Enum):
    OPENED = 1
    LOCKED = 2


@dataclass(frozen=True)
class Door:
    pass


@dataclass(frozen=True)
class Shut(Door):
    colour: str = "green"


@dataclass(frozen=True)
class Open(Door):
    width_cm: int
    colour: str = "green"


TABLE = {Event.OPENED: {Shut: Open}, Event.LOCKED: {Open: Shut, Shut: Shut}}


def test_what_both_know_is_kept_and_what_the_event_tells_is_new() -> None:
    assert moved(TABLE, Shut("red"), Event.OPENED, width_cm=80) == Open(80, "red")
    assert moved(TABLE, Shut("red"), Event.OPENED, width_cm=80, colour="blue") == Open(80, "blue")


def test_what_the_next_state_does_not_know_is_left_behind() -> None:
    assert moved(TABLE, Open(80, "red"), Event.LOCKED) == Shut("red")


def test_of_one_that_is_made_anew_nothing_is_kept() -> None:
    assert made_anew(TABLE, Open(80, "red"), Event.LOCKED) == Shut("green")


def test_what_is_in_no_row_cannot_come() -> None:
    with pytest.raises(AssertionError, match="OPENED cannot come to Open"):
        moved(TABLE, Open(80), Event.OPENED)
