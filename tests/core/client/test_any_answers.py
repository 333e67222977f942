"""The pipeline against two partitions that judge as the server does, with any answers, losses and copies in between.

Whatever happens: what was told as stored is there once and in order, what was told as not stored is not and never
comes, and what is in doubt is there once at most. Where the network delivers twice what was answered, one word is of
the moment only: a batch that was refused for now until its time was over may come to be stored.
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
    LogSilent,
    Lost,
    SendProduce,
    Tick,
)
from semel.core.client.fate import InDoubt, PartFate, Refused, Stored
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records
from semel.types import ProducerGrant, TopicPartition

TPS = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 3_000
FOR_GOOD = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
BEFORE_THE_APPEND = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.LEADER_NOT_AVAILABLE, *FOR_GOOD)
BEHIND_THE_APPEND = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class World:
    """One producer, two partitions, and everything that is under way between them."""

    def __init__(self, *, strict: bool, copies_all: bool) -> None:
        self.pipeline = Pipeline(
            PipelineSettings(batch_bytes=200, linger_ms=0, delivery_timeout_ms=TIMEOUT_MS, strict=strict)
        )
        self.logs = {tp: LogInMemory() for tp in TPS}
        self.handed: dict[TopicPartition, list[int]] = {tp: [] for tp in TPS}
        self.now_ms = 0
        self.appended = 0
        self.rows_of: dict[ProducerBatch, list[int]] = {}
        self.fates: dict[int, PartFate] = {}
        self.requests: list[tuple[SendProduce, dict[TopicPartition, bytes]]] = []
        self.arrived: dict[int, dict[TopicPartition, Answer]] = {}  # by request: the answer is on its way
        self.copies_all = copies_all  # else only what may still be under way comes late
        self.copies: list[tuple[TopicPartition, bytes]] = []
        self.stood_by: dict[tuple[TopicPartition, bytes], Answer] = {}  # what was stored or refused for good
        self.questions: list[tuple[TopicPartition, ProducerGrant]] = []
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
        self.questions += effects.ask_log
        self.grants_asked += effects.ask_grant
        for send in effects.sends:
            self.requests.append((send, {batch.tp: bytes(batch.encoded or b"") for batch in send.batches}))
        assert len(self.requests) <= 5
        if effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset({"t"}), dict.fromkeys(TPS, 1)))

    # -- what may happen

    def append(self, at: int) -> None:
        tp = TPS[at % 2]
        for _ in range(at // 2 % 5 + 1):
            row = Record(0, 0, None, b"%040d" % self.appended)
            batch, _, _ = self.pipeline.accumulator.append(tp, row, self.now_ms)
            self.rows_of.setdefault(batch, []).append(self.appended)
            self.handed[tp].append(self.appended)
            self.appended += 1
        self.feed(Tick())

    def take_in(self, tp: TopicPartition, encoded: bytes, refusal: ErrorCode | None = None) -> Answer:
        """The log judges, or refuses it; what it has stored or refused for good, it has when it comes again."""
        if self.copies_all and (stood_by := self.stood_by.get((tp, encoded))):
            refusal = stood_by.code if stood_by.code in FOR_GOOD else None
        answer = Answer(*self.logs[tp].take(encoded)) if refusal is None else Answer(refusal)
        if answer.code in (ErrorCode.NONE, *FOR_GOOD):
            self.stood_by[tp, encoded] = answer
        return answer

    def is_on_its_way(self, at: int) -> bool:
        return self.requests[at][0].request_id not in self.arrived

    def arrive(self, at: int) -> None:
        """A request reaches the server; its answer comes later."""
        at %= len(self.requests)
        send, sent = self.requests[at]
        if self.is_on_its_way(at):
            self.arrived[send.request_id] = {tp: self.take_in(tp, encoded) for tp, encoded in sent.items()}

    def answer(self, at: int) -> None:
        self.arrive(at)
        send, _ = self.requests.pop(at % len(self.requests))
        self.feed(Answered(send.request_id, self.arrived.pop(send.request_id)))

    def answer_in_order(self, at: int) -> None:
        self.answer(0)

    def refuse(self, at: int) -> None:
        """One of its partitions, or each of them for another reason."""
        place = at // 3 % len(self.requests)
        if not self.is_on_its_way(place):
            self.answer(place)
            return
        send, sent = self.requests.pop(place)
        answers = {}
        for number, (tp, encoded) in enumerate(sent.items()):
            is_taken = number > 0 and at % 2
            refusal = None if is_taken else BEFORE_THE_APPEND[(at + number) % len(BEFORE_THE_APPEND)]
            answers[tp] = self.take_in(tp, encoded, refusal)
        self.feed(Answered(send.request_id, answers))

    def doubt(self, at: int) -> None:
        """Perhaps stored, says the leader itself; and perhaps it will come to be."""
        code = BEHIND_THE_APPEND[at % len(BEHIND_THE_APPEND)]
        send, sent = self.reach(0, arrives=at % 2 == 1)
        self.feed(Answered(send.request_id, dict.fromkeys(sent, Answer(code))))

    def lose(self, at: int) -> None:
        send, _ = self.reach(at // 2 % len(self.requests), arrives=at % 2 == 1)
        self.feed(Lost(send.request_id, sent=True, why="the connection broke"))

    def lose_unsent(self, at: int) -> None:
        is_copied = any(one in self.copies for one in self.requests[-1][1].items())
        if self.is_on_its_way(-1) and not is_copied:
            send, _ = self.requests.pop()
            self.feed(Lost(send.request_id, sent=False, why="no connection"))

    def reach(self, at: int, *, arrives: bool) -> tuple[SendProduce, dict[TopicPartition, bytes]]:
        """Take a request away, which arrives now or may come to."""
        if arrives:
            self.arrive(at)
        elif self.is_on_its_way(at):
            self.copies += self.requests[at][1].items()
        send, sent = self.requests.pop(at)
        self.arrived.pop(send.request_id, None)
        return send, sent

    def copy(self, at: int) -> None:
        """The network will deliver it twice, and tells nobody."""
        self.copies += self.requests[at % len(self.requests)][1].items()

    def copy_arrives(self, at: int) -> None:
        self.take_in(*self.copies.pop(at % len(self.copies)))

    def tell(self, at: int) -> None:
        tp, grant = self.questions.pop(0)
        self.feed(self.logs[tp].describe(tp, grant))

    def be_silent(self, at: int) -> None:
        tp, _ = self.questions.pop(0)
        self.feed(LogSilent(tp, "no answer"))

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
            moves += [self.answer_in_order, self.answer, self.arrive, self.refuse]
            moves += [self.doubt, self.lose, self.lose_unsent]
            moves += [self.copy] if self.copies_all else []
        if self.copies:
            moves += [self.copy_arrives]
        if self.questions:
            moves += [self.tell, self.be_silent]
        return moves

    def refused_for_good(self) -> set[int]:
        """What may be sent again and again, and is never stored."""
        return {
            int(row.value or b"")
            for (_, encoded), answer in self.stood_by.items()
            for row in decode_records(encoded)
            if answer.code in FOR_GOOD and (answer.code is not FOR_GOOD[0] or _is_one_row(encoded))
        }

    def settle_all(self) -> None:
        for _ in range(2_000):
            if not self.pipeline.accumulator.unsettled_batches:
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
        assert not self.pipeline.accumulator.unsettled_batches, "it never ends"
        while self.copies:
            self.copy_arrives(0)


@pytest.mark.parametrize("copies_all", [False, True], ids=["once", "copied"])
@pytest.mark.parametrize("strict", [False, True], ids=["goes on", "strict"])
@settings(max_examples=settings().max_examples * 3)
@given(choices=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 29)), min_size=10, max_size=120))
def test_every_word_is_true_whatever_happens(
    choices: list[tuple[int, int]], *, strict: bool, copies_all: bool
) -> None:
    world = World(strict=strict, copies_all=copies_all)
    for what, at in choices:
        moves = world.moves()
        moves[what % len(moves)](at)
    world.settle_all()
    assert sorted(world.fates) == list(range(world.appended))
    assert {type(fate) for fate in world.fates.values()} <= {Stored, Refused, InDoubt}
    in_doubt = {row for row, fate in world.fates.items() if isinstance(fate, InDoubt)}
    if copies_all:
        refused = {row for row, fate in world.fates.items() if isinstance(fate, Refused)}
        in_doubt |= refused - world.refused_for_good()
    for tp in TPS:
        stored, handed = [int(value) for _, value in world.logs[tp].rows], world.handed[tp]
        assert len(set(stored)) == len(stored), "twice"
        told_stored = [row for row in handed if isinstance(world.fates[row], Stored)]
        assert [row for row in stored if row not in in_doubt] == told_stored
        if strict:
            refused = [row for row in handed if row not in in_doubt and isinstance(world.fates[row], Refused)]
            assert not refused or max(stored, default=-1) < min(refused), (
                "the first n rows are what is stored"
            )


def _is_one_row(encoded: bytes) -> bool:
    return decode_header(encoded).record_count == 1
