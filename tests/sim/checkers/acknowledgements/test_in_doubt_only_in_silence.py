from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import LEASE, TP
from tests.sim.conftest import Breaks

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, Event, LogAnswered, SendProduce, Tick
from semel.core.client.fate import InDoubt, Refused
from semel.errors import ErrorCode
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.sim.checkers.acknowledgements import InDoubtOnlyInSilence
from semel.types import ProducerGrant

GRANT = ProducerGrant(LEASE, 3)
TIMEOUT_MS = 1_000
DOUBT = InDoubt(ErrorCode.REQUEST_TIMED_OUT, "nobody answers")


class Holder:
    """A producer that has sent one batch with sequence 0, at 0 ms."""

    def __init__(self) -> None:
        self.checker = InDoubtOnlyInSilence()
        self.batch = ProducerBatch(TP, 0)
        self.batch.add(Record(0, 0, None, b"a:0"))
        self.batch.encode(Compression.NONE)
        self.batch.assign(GRANT, 0)
        self.sends()

    def sends(self) -> None:
        self.handles(Tick(), Effects(sends=[SendProduce(1, 0, (self.batch,))]))

    def handles(self, event: Event, effects: Effects | None = None, *, now_ms: int = 0) -> None:
        self.checker.lease_holder_handled(event, effects or Effects(), now_ms, TIMEOUT_MS)

    def settles(self, fate: InDoubt | Refused, *, now_ms: int, event: Event | None = None) -> None:
        self.handles(event or Tick(), Effects(settled=[(self.batch, fate)]), now_ms=now_ms)


def log_says(last_sequence: int | None, **more: bool) -> LogAnswered:
    return LogAnswered(TP, None if last_sequence is None else 3, last_sequence, GRANT, **more)


@pytest.mark.parametrize("heard", [(), (log_says(None),), (log_says(-1),)])
def test_doubt_when_its_time_is_over_and_not_before(breaks: Breaks, heard: tuple[Event, ...]) -> None:
    for now_ms in (TIMEOUT_MS, TIMEOUT_MS - 1):
        holder = Holder()
        for event in heard:
            holder.handles(event)
        if now_ms == TIMEOUT_MS:
            holder.settles(DOUBT, now_ms=now_ms)
        else:
            with breaks():
                holder.settles(DOUBT, now_ms=now_ms)


@pytest.mark.parametrize("said", [log_says(0), log_says(4), log_says(None, is_final=True)])
def test_no_doubt_of_what_a_leader_has_said(breaks: Breaks, said: LogAnswered) -> None:
    holder = Holder()
    holder.handles(said)
    with breaks():
        holder.settles(DOUBT, now_ms=TIMEOUT_MS)


def test_what_was_sent_since_is_in_doubt_again() -> None:
    holder = Holder()
    holder.handles(log_says(0))
    holder.sends()
    holder.settles(DOUBT, now_ms=TIMEOUT_MS)


def test_a_log_that_was_trimmed_leaves_doubt_at_any_time() -> None:
    Holder().settles(DOUBT, now_ms=0, event=log_says(None, is_final=True, is_cut=True))


def test_a_refusal_is_no_doubt() -> None:
    Holder().settles(Refused(ErrorCode.UNKNOWN_PRODUCER_ID, "its lease is over"), now_ms=0)
