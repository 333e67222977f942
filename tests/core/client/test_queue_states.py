"""The table of a queue's states: each of its rows is walked through a whole pipeline, and no other row is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from tests.core.client import test_any_answers as any_answers
from tests.core.client import test_leasing as leasing
from tests.core.client.test_pipeline import Bench, long

from semel.core.client import partition_queue
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import SendProduce
from semel.core.client.queue_states import (
    TABLE,
    Asking,
    Dense,
    Gapped,
    GappedInDoubt,
    Hold,
    Holding,
    Line,
    Moving,
    QueueEvent,
    Recovering,
    Sending,
    Sequences,
    ShutOut,
    State,
    Stopped,
    Ungranted,
    follow,
)
from semel.errors import ErrorCode
from semel.types import ProducerGrant, TopicPartition

WALKS_MAX = 3_000
GRANT = ProducerGrant(7, 0)
ASKED = Asking(ProducerBatch(TopicPartition("t", 0), 0), None)
STATES: list[State] = [
    *(Sending(), Recovering(), ASKED, Stopped(ErrorCode.INVALID_RECORD, "why")),
    *(Ungranted(), Holding(GRANT), Moving(GRANT, 1_000), ShutOut(GRANT, 1_000)),
    *(Dense(), Gapped(5), GappedInDoubt(5)),
]
REGIONS = (Line, Hold, Sequences)
Row = tuple[type[State], QueueEvent]
ROWS: set[Row] = {(state, event) for event, moves in TABLE.items() for state in moves}


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Row]]:
    """The rows that were looked up, as long as the test lasts."""
    rows: set[Row] = set()

    def looks_up(state: State, event: QueueEvent, **told: object) -> State:
        rows.add((type(state), event))
        return follow(state, event, **told)

    monkeypatch.setattr(partition_queue, "follow", looks_up)
    yield rows


def walk_with_any_answers(seed: int) -> None:
    """As the property of ``test_any_answers`` does."""
    random = Random(seed)
    world = any_answers.World(strict=seed % 4 == 0, copies_all=seed % 2 == 0)
    for _ in range(random.randint(10, 120)):
        moves = world.moves()
        moves[random.randrange(len(moves))](random.randrange(30))
    world.settle_all()


def walk_under_leases(seed: int) -> None:
    """As the properties of ``test_leasing`` do."""
    random = Random(seed)
    world = leasing.World(replace(leasing.SETTINGS, batch_bytes=300, delivery_timeout_ms=1_500))
    number = [0]
    for _ in range(random.randint(10, 120)):
        moves = sorted(leasing.moves_of(world, number, refuses=True, copies=True).items())
        moves[random.randrange(len(moves))][1](random.randrange(10))
    world.settle_all()


def sent_again(bench: Bench, *letters: str) -> list[SendProduce]:
    """So many batches are in flight, each after an attempt that may have been stored."""
    bench.append(*(long(letter) for letter in letters))
    for send in bench.take_sends():
        bench.answer(send, ErrorCode.REQUEST_TIMED_OUT)
    bench.tick(after_ms=200)
    return bench.take_sends()


def stop_while_the_log_is_asked() -> None:
    bench = Bench()
    bench.append("a")
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.pipeline.forget_unsent("closed")


def fail_in_front_of_what_is_in_doubt() -> None:
    bench = Bench()
    first, second, third = sent_again(bench, *"abc")
    first.batches[0].maybe_stored = False
    bench.answer(third, ErrorCode.INVALID_TIMESTAMP)
    bench.answer(second, ErrorCode.INVALID_TIMESTAMP)
    bench.answer(first, ErrorCode.INVALID_TIMESTAMP)


def forget_one_after_the_other() -> None:
    bench = Bench()
    bench.append(long("a"), long("b"))
    for send in bench.take_sends():
        bench.answer(send, ErrorCode.UNKNOWN_PRODUCER_ID)


def end_a_lease_that_is_shut_out() -> None:
    world, _ = leasing.begun()
    world.append("a", "b")
    for _ in range(2):
        world.refuse(ErrorCode.REQUEST_TIMED_OUT)
    world.at(world.now_ms + 100)
    world.refuse(ErrorCode.INVALID_TIMESTAMP)
    world.refuse(ErrorCode.UNKNOWN_PRODUCER_ID)


@pytest.mark.thorough
def test_every_row_is_reached(reached: set[Row]) -> None:
    """By walks of the properties' kind, and by an example where chance seldom comes."""
    stop_while_the_log_is_asked()
    fail_in_front_of_what_is_in_doubt()
    forget_one_after_the_other()
    end_a_lease_that_is_shut_out()
    for seed in range(WALKS_MAX):
        if reached == ROWS:
            return
        walk_with_any_answers(seed)
        walk_under_leases(seed)
    assert not ROWS - reached


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
@pytest.mark.parametrize("event", QueueEvent, ids=lambda event: event.name.lower())
def test_an_event_leads_to_a_state_of_the_same_region_or_is_an_error_that_names_both(
    state: State, event: QueueEvent
) -> None:
    told = {"batch": ASKED.batch, "refusal": None, "code": ErrorCode.NONE, "why": "", "at_sequence": 3}
    following = TABLE[event].get(type(state))
    if following is None:
        with pytest.raises(AssertionError, match=f"{event.name} .* {type(state).__name__}"):
            follow(state, event, **told)
    else:
        assert type(follow(state, event, **told)) is following
        assert sum(isinstance(state, region) and issubclass(following, region) for region in REGIONS) == 1


def test_a_state_that_stays_keeps_what_the_event_does_not_tell() -> None:
    stopped = Stopped(ErrorCode.INVALID_RECORD, "why")
    assert follow(stopped, QueueEvent.ASKED, batch=ASKED.batch, refusal=None) == stopped
    assert follow(Holding(GRANT, 1_000), QueueEvent.NEWER_GRANTED) == Moving(GRANT, 1_000)
    assert follow(Moving(GRANT, 1_000), QueueEvent.FOUND_ALIVE, ends_ms=2_000) == Moving(GRANT, 2_000)
    assert follow(GappedInDoubt(5), QueueEvent.FAILED, at_sequence=3) == GappedInDoubt(3)
    assert follow(Gapped(5), QueueEvent.PASSED) == Dense()
