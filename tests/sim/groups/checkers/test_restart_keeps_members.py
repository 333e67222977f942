from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, BOB, GROUP, NEWER, OLDER, PLAN, part, stored, story, wrote

from semel.core.group.records import StoredGroup
from semel.errors import ErrorCode
from semel.sim.groups.checkers import RestartKeepsMembers
from semel.sim.groups.story import Who
from semel.wire.api import ApiKey

SYNC, HEARTBEAT = ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT
IN_TIME, TOO_LATE = PLAN.patience_ms + 99, PLAN.patience_ms + 100


def assigned(*members: Who, generation_id: int = 2) -> RestartKeepsMembers:
    """All of these were told their parts, which they asked for at 100 ms."""
    checker = RestartKeepsMembers()
    for who in members:
        checker.member_answered(PLAN, who, SYNC, ErrorCode.NONE, generation_id, 100, 110)
        checker.member_assigned(story(), who, generation_id, part(generation_id), 100, 110)
    return checker


def come_up(checker: RestartKeepsMembers, *found: StoredGroup, at_ms: int = 150) -> None:
    checker.coordinator_came_up(wrote(story(), *found), at_ms)


def told_that_it_is_none(checker: RestartKeepsMembers, now_ms: int) -> None:
    checker.member_answered(PLAN, ANN, HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID, 2, 200, now_ms)


@pytest.mark.parametrize("found", [stored(2, ANN, BOB), stored(2, BOB, ANN), stored(3, BOB), stored(3)])
def test_all_are_found_or_a_newer_generation(found: StoredGroup) -> None:
    come_up(assigned(ANN, BOB), found)


@pytest.mark.parametrize("found", [(), (stored(1, ANN, BOB),), (stored(2, ANN),), (stored(2),)])
def test_nothing_of_it_is_lost(breaks: Breaks, found: tuple[StoredGroup, ...]) -> None:
    checker = assigned(ANN, BOB)
    with breaks():
        come_up(checker, *found)


def test_who_has_left_may_be_missing() -> None:
    checker = assigned(ANN, BOB)
    checker.member_leaves(BOB, 120)
    come_up(checker, stored(2, ANN))


def test_a_newer_copy_of_a_static_member_stands_for_it() -> None:
    come_up(assigned(OLDER, ANN), stored(2, NEWER, ANN))


def test_a_group_that_was_deleted_is_not_looked_for() -> None:
    checker = assigned(ANN)
    checker.group_written(story(), GROUP, None, 120)
    come_up(checker)


def test_a_part_in_a_group_that_was_deleted_says_nothing_of_the_next_one() -> None:
    """Seed 3113172: it stood still when the answer came, and heard it once the group was gone."""
    checker = RestartKeepsMembers()
    checker.group_written(story(), GROUP, None, 105)
    checker.member_assigned(story(), ANN, 1, part(1), 100, 110)
    checker.member_assigned(story(), BOB, 1, part(1), 120, 130)
    come_up(checker, stored(1, BOB))


def test_the_next_one_is_looked_for(breaks: Breaks) -> None:
    checker = RestartKeepsMembers()
    checker.group_written(story(), GROUP, None, 105)
    checker.member_assigned(story(), ANN, 1, part(1), 110, 120)
    with breaks():
        come_up(checker, stored(1, BOB))


def test_it_goes_on_with_who_is_heard_of_in_time(breaks: Breaks) -> None:
    checker = assigned(ANN)
    come_up(checker, stored(2, ANN))
    with breaks():
        told_that_it_is_none(checker, IN_TIME)


def test_not_with_who_is_silent() -> None:
    checker = assigned(ANN)
    come_up(checker, stored(2, ANN))
    told_that_it_is_none(checker, TOO_LATE)


def test_without_a_restart_it_is_another_checkers() -> None:
    told_that_it_is_none(assigned(ANN), IN_TIME)


def test_who_has_joined_and_has_no_part_yet_may_be_forgotten() -> None:
    checker = RestartKeepsMembers()
    checker.member_answered(PLAN, ANN, ApiKey.JOIN_GROUP, ErrorCode.NONE, 2, 100, 110)
    come_up(checker)
    told_that_it_is_none(checker, IN_TIME)
