from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, GROUP, KEY, TP, committed, note, stored, story, wrote

from semel.core.group.records import StoredGroup
from semel.sim.groups.checkers import CommittedPositionNeverLost
from semel.sim.groups.story import GroupStory

FIRST, SECOND, THIRD = (note(ANN, 1, number) for number in (1, 2, 3))


def acknowledged(of: GroupStory, *notes: str) -> CommittedPositionNeverLost:
    """Each of these is written, and acknowledged at 10 ms, 20 ms …"""
    checker = CommittedPositionNeverLost()
    for number, text in enumerate(notes, 1):
        committed(of, text)
        checker.commit_acknowledged(of, ANN, {TP: text}, number * 10)
    return checker


def test_a_fetch_says_what_was_acknowledged() -> None:
    of = story()
    acknowledged(of, FIRST, SECOND).position_told(of, GROUP, TP, SECOND, 21)


def test_or_what_came_behind_it_though_nobody_was_told() -> None:
    of = story()
    checker = acknowledged(of, FIRST)
    committed(of, SECOND, durable=False)
    checker.position_told(of, GROUP, TP, SECOND, 11)


def test_who_asked_before_may_hear_of_the_one_before() -> None:
    of = story()
    acknowledged(of, FIRST, SECOND).position_told(of, GROUP, TP, FIRST, 20)


def test_a_copy_that_came_late_is_the_newest() -> None:
    of = story()
    checker = acknowledged(of, FIRST, SECOND)
    committed(of, FIRST, durable=False)
    checker.position_told(of, GROUP, TP, FIRST, 21)


@pytest.mark.parametrize("told", [FIRST, None, THIRD])
def test_nothing_older_and_nothing_else(breaks: Breaks, told: str | None) -> None:
    of = story()
    checker = acknowledged(of, FIRST, SECOND)
    with breaks():
        checker.position_told(of, GROUP, TP, told, 21)


def test_a_copy_that_is_not_durable_takes_nothing_from_the_first() -> None:
    of, checker = story(), CommittedPositionNeverLost()
    committed(of, FIRST)
    committed(of, FIRST, durable=False)
    checker.commit_acknowledged(of, ANN, {TP: FIRST}, 10)


def test_none_is_there_before_the_first() -> None:
    CommittedPositionNeverLost().position_told(story(), GROUP, TP, None, 5)


def test_none_is_there_behind_a_deletion() -> None:
    of = story()
    checker = acknowledged(of, FIRST)
    committed(of, None, durable=False)
    checker.position_told(of, GROUP, TP, None, 11)


def test_what_is_acknowledged_is_durable(breaks: Breaks) -> None:
    of, checker = story(), CommittedPositionNeverLost()
    committed(of, FIRST, durable=False)
    with breaks():
        checker.commit_acknowledged(of, ANN, {TP: FIRST}, 10)


@pytest.mark.parametrize(
    ("of", "before"),
    [
        (story(offsets_expire=True), (stored(1, ANN), stored(2))),
        (story(offsets_expire=True), ()),
    ],
)
def test_it_expires_where_nobody_is(of: GroupStory, before: tuple[StoredGroup, ...]) -> None:
    CommittedPositionNeverLost().offset_written(wrote(of, *before), KEY, None)


@pytest.mark.parametrize("asked_for", ["topic", "group"])
def test_it_goes_by_request(asked_for: str) -> None:
    of = wrote(story(), stored(1, ANN))
    (of.deleted_topics if asked_for == "topic" else of.deleted_groups).add(
        TP.topic if asked_for == "topic" else GROUP
    )
    CommittedPositionNeverLost().offset_written(of, KEY, None)


@pytest.mark.parametrize(
    ("of", "before"), [(story(offsets_expire=True), (stored(1, ANN),)), (story(), (stored(2),))]
)
def test_else_it_stays(breaks: Breaks, of: GroupStory, before: tuple[StoredGroup, ...]) -> None:
    with breaks():
        CommittedPositionNeverLost().offset_written(wrote(of, *before), KEY, None)
