from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, BOB, NEWER, OLDER, OTHER, TP, part, stored, story, wrote

from semel.sim.groups.assignment import Assignment
from semel.sim.groups.checkers import OneOwnerAGeneration
from semel.sim.groups.story import Who


def tell(*told: tuple[Who, int, Assignment | None], durable: bool = True, gone_ms: int | None = None) -> None:
    """One answer every ten milliseconds, each to what was asked five before."""
    of, checker = wrote(story(), stored(1, ANN), stored(2, BOB), durable=durable), OneOwnerAGeneration()
    for number, (who, generation_id, assignment) in enumerate(told, 1):
        if gone_ms is not None and number * 10 > gone_ms:
            checker.group_written(of, ANN.group_id, None, gone_ms)
        checker.member_assigned(of, who, generation_id, assignment, number * 10 - 5, number * 10)


def test_each_partition_has_one() -> None:
    tell((ANN, 1, part(1, TP)), (BOB, 1, part(1, OTHER)), (ANN, 1, part(1, TP)), (BOB, 1, None))


def test_the_next_generation_has_others() -> None:
    tell((ANN, 1, part(1, TP)), (BOB, 2, part(2, TP)))


def test_copies_of_a_static_member_are_one() -> None:
    tell((OLDER, 1, part(1, TP)), (NEWER, 1, part(1, TP)))


def test_two_in_one_generation_are_too_many(breaks: Breaks) -> None:
    with breaks():
        tell((ANN, 1, part(1, TP)), (BOB, 1, part(1, OTHER, TP)))


def test_two_processes_under_one_member_id_are_two(breaks: Breaks) -> None:
    with breaks():
        tell((ANN, 1, part(1, TP)), (ANN._replace(name="m9.9"), 1, part(1, TP)))


def test_a_part_is_of_its_generation(breaks: Breaks) -> None:
    with breaks():
        tell((ANN, 2, part(1, TP)))


@pytest.mark.parametrize("generation_id", [1, 2])
def test_what_is_not_durable_is_told_to_nobody(breaks: Breaks, generation_id: int) -> None:
    with breaks():
        tell((ANN, generation_id, None), durable=False)


def test_a_group_that_was_deleted_begins_anew() -> None:
    tell((ANN, 1, part(1, TP)), (BOB, 1, part(1, TP)), gone_ms=11)


def test_what_was_asked_before_it_was_deleted_says_nothing() -> None:
    tell((ANN, 1, part(1, TP)), (BOB, 3, part(3, TP)), gone_ms=16)
