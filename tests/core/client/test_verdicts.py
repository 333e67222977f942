"""What the producer makes of every row of the verdict table: each ends as stored, not stored or cannot know."""

from __future__ import annotations

import pytest
from tests.verdicts.log_in_memory import LogOfRow

from semel.client.delivery import error_of
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    Leased,
    LogSilent,
    Lost,
    Tick,
)
from semel.core.client.fate import Fenced, InDoubt, PartFate, Refused, Stored
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.core.producer_state.table import TABLE, Batch, Row, Told
from semel.errors import CannotKnow, ErrorCode, FencedInDoubt, FencedNotStored, NotStored, ProducerFenced
from semel.record.batch import Record
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, TopicPartition, is_leased

TP = TopicPartition("t", 0)
DAY_MS = 86_400_000
ROWS = [row for row in TABLE if row.outcome.told is not None]
ROWS_IN_DOUBT = [row for row in TABLE if row.outcome.told_in_doubt is not None]


class Writer:
    """A producer whose next batch is the row's, before a log that has taken what comes before it."""

    def __init__(self, row: Row) -> None:
        assert isinstance(row.sent, Batch)
        self.log = LogOfRow(row)
        grant = self.log.grant
        self.pipeline = Pipeline(
            PipelineSettings(linger_ms=0, delivery_timeout_ms=1_000, lease=is_leased(grant.producer_id))
        )
        self.now_ms = 0
        self.fates: dict[ProducerBatch, PartFate] = {}
        self.own = ProducerGrant(grant.producer_id, grant.producer_epoch + row.sent.producer_epoch)
        self.granted: list[ProducerGrant] = []
        self.answered: list[ErrorCode] = []
        self.loses = False
        self.feed(LeadersKnown(frozenset({"t"}), {TP: 1}))
        self.grant()
        queue = self.pipeline.accumulator.begin(TP)
        queue.adopt(self.pipeline.grants.newest or grant, DAY_MS if is_leased(grant.producer_id) else None)
        queue.next_sequence = row.sent.base_sequence
        for number in range(row.sent.record_count):
            self.batch, _, _ = self.pipeline.accumulator.append(TP, Record(0, 0, None, b"%d" % number), 0)

    def grant(self) -> None:
        """The row's own grant first, then another one."""
        grant = self.own
        if self.granted:
            grant = ProducerGrant(LEASED_IDS_FROM + 4 if self.pipeline.settings.lease else 8, 0)
        self.granted.append(grant)
        if self.pipeline.settings.lease:
            lease = Lease(grant.producer_id, grant.producer_epoch, DAY_MS, DAY_MS, {})
            self.feed(Leased(lease, self.now_ms))
        else:
            self.feed(Granted(grant))

    def feed(self, event: Event) -> None:
        self.carry_out(self.pipeline.handle(event, self.now_ms))

    def carry_out(self, effects: Effects) -> None:
        self.fates.update(effects.settled)
        if effects.ask_grant or effects.ask_lease is not None:
            self.grant()
        for topic in effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset({topic}), {TP: 1}))
        for tp, grant in effects.ask_log:
            remaining_ms = 0 if grant.producer_id < self.log.leases.expired_below else DAY_MS
            self.feed(self.log.describe(tp, grant, remaining_ms, self.now_ms))
        for ask in effects.read_back:
            self.feed(self.log.read_back(ask) or LogSilent(ask.tp, "the fence was refused"))
        for send in effects.sends:
            if self.loses:
                self.loses = False
                self.feed(Lost(send.request_id, sent=True, why="the connection broke"))
                continue
            (batch,) = send.batches
            assert batch.encoded is not None
            code, base_offset = self.log.take(batch.encoded)
            self.answered.append(code)
            self.feed(Answered(send.request_id, {TP: Answer(code, base_offset)}))

    def fate(self) -> PartFate:
        self.feed(Tick())
        while self.batch not in self.fates:
            deadline_ms = self.pipeline.next_deadline_ms()
            assert deadline_ms is not None
            self.now_ms = deadline_ms
            self.feed(Tick())
        return self.fates[self.batch]


def told(writer: Writer) -> Told:
    match writer.fate():
        case Stored(grant):
            return Told.STORED if grant == writer.own else Told.ANEW
        case Fenced(maybe_stored=maybe_stored):
            return Told.FENCED_IN_DOUBT if maybe_stored else Told.FENCED
        case InDoubt():
            return Told.CANNOT_KNOW
        case Refused() as refused:
            raise AssertionError(refused)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.scenario)
def test_what_is_told_at_once(row: Row) -> None:
    writer = Writer(row)
    assert told(writer) is row.outcome.told
    assert writer.answered[0] is row.outcome.code


@pytest.mark.parametrize("row", ROWS_IN_DOUBT, ids=lambda row: row.scenario)
def test_what_is_told_after_silence(row: Row) -> None:
    """The attempt that went unanswered is the one that stored what is stored; else it never arrived."""
    writer = Writer(row)
    writer.loses = True
    assert told(writer) is row.outcome.told_in_doubt
    assert writer.answered[0] is row.outcome.code


def test_every_fate_is_an_exception_that_says_where_the_row_is() -> None:
    grant, code = ProducerGrant(7, 0), ErrorCode.PRODUCER_FENCED
    told_as = [
        (Refused(code, "too large"), NotStored, "is not stored: too large"),
        (InDoubt(code, "no answer"), CannotKnow, "may or may not be stored: no answer"),
        (Fenced(code, grant, 3, False), FencedNotStored, "is not stored: epoch 0 of producer 7"),
        (Fenced(code, grant, 3, True), FencedInDoubt, "may or may not be stored: epoch 0 of producer 7"),
    ]
    for fate, kind, text in told_as:
        error = error_of(fate, "row")
        assert type(error) is kind
        assert text in str(error)
        assert error.code is code
    for fenced, where in ((FencedNotStored, NotStored), (FencedInDoubt, CannotKnow)):
        assert issubclass(fenced, ProducerFenced)
        assert issubclass(fenced, where)
