from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import ANN, BOB, GROUP, PLAN, story

from semel.errors import ErrorCode
from semel.sim.groups.checkers import GenerationOnlyRises
from semel.sim.groups.story import Who
from semel.wire.api import ApiKey

JOIN, SYNC, HEARTBEAT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT


def answer(
    checker: GenerationOnlyRises,
    who: Who,
    api_key: ApiKey,
    generation_id: int,
    sent_ms: int,
    now_ms: int,
    code: ErrorCode = ErrorCode.NONE,
) -> None:
    checker.member_answered(PLAN, who, api_key, code, generation_id, sent_ms, now_ms)


def assigned(generation_id: int) -> GenerationOnlyRises:
    """Somebody was, at 10 ms."""
    checker = GenerationOnlyRises()
    answer(checker, ANN, SYNC, generation_id, 5, 10)
    return checker


@pytest.mark.parametrize("api_key", [JOIN, SYNC, HEARTBEAT])
@pytest.mark.parametrize("generation_id", [3, 4])
def test_it_may_stay_or_rise(api_key: ApiKey, generation_id: int) -> None:
    answer(assigned(3), BOB, api_key, generation_id, 11, 20)


@pytest.mark.parametrize("api_key", [JOIN, SYNC, HEARTBEAT])
def test_it_does_not_fall(breaks: Breaks, api_key: ApiKey) -> None:
    checker = assigned(3)
    with breaks():
        answer(checker, BOB, api_key, 2, 11, 20)


def test_a_refusal_of_an_older_one_is_right() -> None:
    answer(assigned(3), BOB, HEARTBEAT, 2, 11, 20, ErrorCode.ILLEGAL_GENERATION)


def test_an_answer_that_is_late_was_right_when_it_was_given() -> None:
    answer(assigned(3), BOB, JOIN, 2, 10, 20)


def test_what_was_never_assigned_may_come_again() -> None:
    checker = assigned(3)
    answer(checker, ANN, JOIN, 5, 11, 20)
    answer(checker, BOB, JOIN, 4, 21, 30)


def test_a_group_that_was_deleted_begins_anew() -> None:
    checker = assigned(3)
    checker.group_written(story(), GROUP, None, 15)
    answer(checker, BOB, SYNC, 1, 16, 20)
    answer(checker, ANN, SYNC, 3, 12, 30)  # an answer from before
    answer(checker, BOB, HEARTBEAT, 1, 31, 40)
