"""The pipeline against a partition that judges as the server does, with any answers, losses and copies in between.

Whatever happens: what was told as stored is there once and in order, what was told as not stored is not and never
comes, and what is in doubt is there once at most.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.verdicts.log_in_memory import LogInMemory

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    LogAnswered,
    LogSilent,
    Lost,
    SendProduce,
    Tick,
)
from semel.core.client.fate import InDoubt, PartFate, Refused, Stored
from semel.core.client.pipeline import Pipeline, PipelineSettings
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("t", 0)
TIMEOUT_MS = 3_000
BEFORE_THE_APPEND = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
)
BEHIND_THE_APPEND = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class World:
    """One producer, one partition, and everything that is under way between them."""

    def __init__(self, *, strict: bool) -> None:
        self.pipeline = Pipeline(
            PipelineSettings(batch_bytes=200, linger_ms=0, delivery_timeout_ms=TIMEOUT_MS, strict=strict)
        )
        self.log = LogInMemory(ProducerGrant(7, 0))
        self.rows: list[int] = []  # in the order of the log
        self.now_ms = 0
        self.appended = 0
        self.rows_of: dict[ProducerBatch, list[int]] = {}
        self.fates: dict[int, PartFate] = {}
        self.requests: list[tuple[SendProduce, bytes]] = []
        self.copies: list[bytes] = []
        self.questions: list[ProducerGrant] = []
        self.grants_asked = 0
        self.next_id = 8
        self.feed(Granted(ProducerGrant(7, 0)))

    def feed(self, event: Event) -> None:
        effects: Effects = self.pipeline.handle(event, self.now_ms)
        for batch, fate in effects.settled:
            rows = self.rows_of[batch.whole or batch]
            for row in rows[batch.first_row : batch.first_row + batch.record_count]:
                assert row not in self.fates, "settled twice"
                self.fates[row] = fate
        self.questions += [grant for _, grant in effects.ask_log]
        self.grants_asked += effects.ask_grant
        for send in effects.sends:
            (batch,) = send.batches
            self.requests.append((send, bytes(batch.encoded or b"")))
        assert len(self.requests) <= 5
        if effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset({"t"}), {TP: 1}))

    # -- what may happen

    def append(self, at: int) -> None:
        for _ in range(at + 1):
            row = Record(0, 0, None, b"%040d" % self.appended)
            batch, _, _ = self.pipeline.append(TP, row, self.now_ms)
            self.rows_of.setdefault(batch, []).append(self.appended)
            self.appended += 1
        self.feed(Tick())

    def take_in(self, encoded: bytes) -> Answer:
        end_offset = self.log.state.end_offset
        code, base_offset = self.log.take(decode_header(encoded))
        if self.log.state.end_offset > end_offset:
            self.rows += [int(row.value or b"") for row in decode_records(encoded)]
        return Answer(code, base_offset)

    def answer(self, at: int) -> None:
        send, encoded = self.requests.pop(at % len(self.requests))
        self.feed(Answered(send.request_id, {TP: self.take_in(encoded)}))

    def answer_in_order(self, at: int) -> None:
        self.answer(0)

    def refuse(self, at: int) -> None:
        send, _ = self.requests.pop(0)
        self.feed(Answered(send.request_id, {TP: Answer(BEFORE_THE_APPEND[at % len(BEFORE_THE_APPEND)])}))

    def doubt(self, at: int) -> None:
        """Perhaps stored, says the leader itself; and perhaps it will come to be."""
        send, encoded = self.requests.pop(0)
        if at % 2:
            self.take_in(encoded)
        else:
            self.copies.append(encoded)
        self.feed(Answered(send.request_id, {TP: Answer(BEHIND_THE_APPEND[at % len(BEHIND_THE_APPEND)])}))

    def lose(self, at: int) -> None:
        send, encoded = self.requests.pop(at // 2 % len(self.requests))
        if at % 2:
            self.take_in(encoded)
        else:
            self.copies.append(encoded)
        self.feed(Lost(send.request_id, sent=True, why="the connection broke"))

    def copy_arrives(self, at: int) -> None:
        self.take_in(self.copies.pop(at % len(self.copies)))

    def tell(self, at: int) -> None:
        grant = self.questions.pop(0)
        known = self.log.state.get(grant.producer_id)
        if known is None:
            self.feed(LogAnswered(TP, None, None, grant))
        else:
            self.feed(LogAnswered(TP, known.producer_epoch, known.last_sequence, grant))

    def be_silent(self, at: int) -> None:
        self.questions.pop(0)
        self.feed(LogSilent(TP, "no answer"))

    def grant(self, at: int) -> None:
        self.grants_asked -= 1
        self.next_id += 1
        self.feed(Granted(ProducerGrant(self.next_id, 0)))

    def wait(self, at: int) -> None:
        self.now_ms += (1, 60, 400, TIMEOUT_MS)[at % 4]
        self.feed(Tick())

    def moves(self) -> list[Callable[[int], None]]:
        moves = [self.append, self.wait]
        if self.requests:
            moves += [self.answer_in_order, self.answer, self.refuse, self.doubt, self.lose]
        if self.copies:
            moves += [self.copy_arrives]
        if self.questions:
            moves += [self.tell, self.be_silent]
        return moves

    def settle_all(self) -> None:
        for _ in range(2_000):
            if not self.pipeline.unsettled_batches:
                break
            if self.requests:
                self.answer(0)
            elif self.questions:
                self.tell(0)
            elif self.grants_asked:
                self.grant(0)
            else:
                deadline_ms = self.pipeline.next_deadline_ms()
                assert deadline_ms is not None, "nothing is under way and nothing is due"
                self.now_ms = max(deadline_ms, self.now_ms + 1)
                self.feed(Tick())
        assert not self.pipeline.unsettled_batches, "it never ends"
        while self.copies:
            self.copy_arrives(0)


@pytest.mark.parametrize("strict", [False, True], ids=["goes on", "strict"])
@settings(max_examples=settings().max_examples * 3)
@given(choices=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), min_size=10, max_size=120))
def test_every_word_is_true_whatever_happens(choices: list[tuple[int, int]], *, strict: bool) -> None:
    world = World(strict=strict)
    for what, at in choices:
        moves = world.moves()
        moves[what % len(moves)](at)
    world.settle_all()
    assert len(set(world.rows)) == len(world.rows), "twice"
    assert sorted(world.fates) == list(range(world.appended))
    told_stored = [row for row in range(world.appended) if isinstance(world.fates[row], Stored)]
    assert {type(fate) for fate in world.fates.values()} <= {Stored, Refused, InDoubt}
    in_doubt = {row for row, fate in world.fates.items() if isinstance(fate, InDoubt)}
    assert [row for row in world.rows if row not in in_doubt] == told_stored
    if strict:
        refused = [row for row, fate in world.fates.items() if isinstance(fate, Refused)]
        assert not refused or max(world.rows, default=-1) < min(refused), (
            "the first n rows are what is stored"
        )
