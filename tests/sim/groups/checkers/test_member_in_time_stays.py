from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, BOB, NEWER, OLDER, PLAN, story

from semel.errors import ErrorCode
from semel.sim.groups.checkers import MemberInTimeStays
from semel.wire.api import ApiKey

UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
AT_ONCE, TOO_LATE = PLAN.patience_ms + 99, PLAN.patience_ms + 100


def heard(*codes: ErrorCode) -> MemberInTimeStays:
    """Its heartbeats were answered so, the last one was sent at 100 ms."""
    checker = MemberInTimeStays()
    for code in codes:
        checker.member_answered(PLAN, ANN, ApiKey.HEARTBEAT, code, 1, 100, 110)
    return checker


def told_that_it_is_none(checker: MemberInTimeStays, now_ms: int) -> None:
    checker.member_answered(PLAN, ANN, ApiKey.HEARTBEAT, UNKNOWN, 1, 150, now_ms)


def test_who_was_heard_of_in_time_is_a_member(breaks: Breaks) -> None:
    checker = heard(ErrorCode.NONE)
    with breaks():
        told_that_it_is_none(checker, AT_ONCE)


def test_who_was_silent_for_a_session_is_none() -> None:
    told_that_it_is_none(heard(ErrorCode.NONE), TOO_LATE)


@pytest.mark.parametrize("codes", [(), (ErrorCode.REBALANCE_IN_PROGRESS,), (ErrorCode.NONE, FENCED)])
def test_who_was_never_said_to_be_one_or_is_fenced(codes: tuple[ErrorCode, ...]) -> None:
    told_that_it_is_none(heard(*codes), AT_ONCE)


def test_who_leaves() -> None:
    checker = heard(ErrorCode.NONE)
    checker.member_leaves(ANN, 120)
    told_that_it_is_none(checker, AT_ONCE)


def test_a_static_member_of_which_a_newer_copy_leaves(breaks: Breaks) -> None:
    for left_ms, may_be_gone in ((100, True), (99, False)):
        checker = MemberInTimeStays()
        checker.member_answered(PLAN, OLDER, ApiKey.HEARTBEAT, ErrorCode.NONE, 1, 100, 110)
        checker.member_leaves(NEWER, left_ms)
        with nullcontext() if may_be_gone else breaks():
            checker.member_answered(PLAN, OLDER, ApiKey.SYNC_GROUP, UNKNOWN, 1, 110, AT_ONCE)


def joined_in_generation_2(*others_in_generation_1_ms: int) -> MemberInTimeStays:
    """Asked at 500 ms; the others' heartbeats were sent then, and answered well."""
    checker = MemberInTimeStays()
    for sent_ms in others_in_generation_1_ms:
        code = ErrorCode.NONE if sent_ms < 400 else ErrorCode.REBALANCE_IN_PROGRESS
        checker.member_answered(PLAN, BOB, ApiKey.HEARTBEAT, code, 1, sent_ms, sent_ms + 10)
    checker.member_answered(PLAN, ANN, ApiKey.JOIN_GROUP, ErrorCode.NONE, 2, 500, 510)
    return checker


@pytest.mark.parametrize(
    ("others_ms", "counts_from_ms"), [((100, 300), 300), ((300, 400), 400), ((400, 600), 500)]
)
def test_who_joins_was_heard_of_when_that_generation_may_have_begun(
    breaks: Breaks, others_ms: tuple[int, ...], counts_from_ms: int
) -> None:
    """Seed 3125993: it joined once more, 15 ms before the time to ask for its part was over."""
    told_that_it_is_none(joined_in_generation_2(*others_ms), counts_from_ms + PLAN.patience_ms)
    with breaks():
        told_that_it_is_none(joined_in_generation_2(*others_ms), counts_from_ms + PLAN.patience_ms - 1)


def test_who_joins_a_generation_of_which_nobody_knows_when_it_began() -> None:
    checker = joined_in_generation_2()
    checker.member_answered(PLAN, BOB, ApiKey.HEARTBEAT, ErrorCode.NONE, 2, 400, 410)
    checker.member_answered(PLAN, BOB, ApiKey.JOIN_GROUP, ErrorCode.REBALANCE_IN_PROGRESS, -1, 450, 460)
    told_that_it_is_none(checker, 520)


def test_who_was_heard_of_before_it_joined(breaks: Breaks) -> None:
    checker = heard(ErrorCode.NONE)
    checker.member_answered(PLAN, ANN, ApiKey.JOIN_GROUP, ErrorCode.NONE, 1, 140, 145)
    with breaks():
        told_that_it_is_none(checker, AT_ONCE)


def test_it_is_told_once_more() -> None:
    checker = heard(ErrorCode.NONE)
    told_that_it_is_none(checker, TOO_LATE)
    told_that_it_is_none(checker, TOO_LATE + 1)


def test_a_restart_is_another_checkers() -> None:
    checker = heard(ErrorCode.NONE)
    checker.coordinator_came_up(story(), 120)
    told_that_it_is_none(checker, AT_ONCE)
