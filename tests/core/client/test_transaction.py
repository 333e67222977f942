"""A producer's transactions against coordinators in memory, by both protocols, with any loss and any delay.

Whatever happens: what is told as committed counts, once and whole; what is told as not committed does not, and never
comes to; nothing of one transaction is ever in another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client import transaction
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Event,
    LeadersKnown,
    Lost,
    SendProduce,
    Tick,
)
from semel.core.client.fate import PartFate, Refused, Stored
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.core.client.transaction import Aborted, Committed, Outcome, TransactionSettings, means
from semel.core.client.transaction_events import (
    AbortAsked,
    AddOffsets,
    AddPartitions,
    AskCoordinator,
    AskProducerId,
    BeginAsked,
    CommitAsked,
    CommitOffsets,
    CoordinatorAnswered,
    CoordinatorLost,
    DescribeOwn,
    EndTransaction,
    GivenUp,
    OffsetsAsked,
    OwnDescription,
    StartAsked,
    TransactionOffsets,
)
from semel.core.client.transaction_places import (
    TABLE,
    Aborting,
    Broken,
    Committing,
    End,
    Ended,
    Failure,
    Flushing,
    Judging,
    Open,
    Place,
    Ready,
    Starting,
    Step,
    Unstarted,
    follow,
)
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records
from semel.types import ProducerGrant, TopicPartition

TPS = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = TransactionSettings(timeout_ms=5_000, patience_ms=3_000, retry_backoff_ms=50)
FOR_GOOD = (
    *(ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    *(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN),
)
INPUT = TopicPartition("in", 0)


@dataclass
class Coordinator:
    """One transactional id at its coordinator, and the partitions' logs behind it, as Kafka has them."""

    is_v2: bool
    grant: ProducerGrant = field(default_factory=lambda: ProducerGrant(9, -1))
    state: str = "Empty"
    ended_by: str = ""
    in_it: set[Any] = field(default_factory=set)
    open_rows: list[bytes] = field(default_factory=list)
    open_offsets: int | None = None
    counted: list[bytes] = field(default_factory=list)
    counts_of: list[list[bytes]] = field(default_factory=list)  # what each commit made count
    committed_offsets: list[int] = field(default_factory=list)
    sequences: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    takers: int = 0  # other copies that took the name

    def _bumped(self) -> ProducerGrant:
        return replace(self.grant, producer_epoch=self.grant.producer_epoch + 1)

    def _abort(self, *, is_bumped: bool) -> None:
        if is_bumped:
            self.grant = self._bumped()
        self.state, self.open_rows, self.open_offsets = "CompleteAbort", [], None
        self.in_it.clear()

    def time_out(self) -> None:
        if self.state == "Ongoing":
            self._abort(is_bumped=True)

    def take_over(self) -> None:
        """Another copy starts."""
        self.takers += 1
        if self.state == "Ongoing":
            self._abort(is_bumped=True)
        self.grant, self.state = self._bumped(), "Empty"

    def answer(self, question: Any) -> tuple[ErrorCode, ProducerGrant | None]:
        match question:
            case AskProducerId(before):
                if before is not None and before != self.grant:
                    return ErrorCode.PRODUCER_FENCED, None
                if self.state == "Ongoing":
                    self._abort(is_bumped=True)
                    return ErrorCode.CONCURRENT_TRANSACTIONS, None
                self.grant, self.state = self._bumped(), "Empty"
                return ErrorCode.NONE, self.grant
            case AddPartitions(grant, tps):
                if grant != self.grant:
                    return ErrorCode.PRODUCER_FENCED, None
                self._open(*tps)
                return ErrorCode.NONE, None
            case AddOffsets(grant, group):
                if grant != self.grant:
                    return ErrorCode.PRODUCER_FENCED, None
                self._open(group)
                return ErrorCode.NONE, None
            case CommitOffsets(grant, offsets, is_v2):
                if grant != self.grant:
                    return ErrorCode.INVALID_PRODUCER_EPOCH, None
                if is_v2:
                    self._open(offsets.group)
                elif self.state != "Ongoing" or offsets.group not in self.in_it:
                    return ErrorCode.INVALID_TXN_STATE, None  # verified, as part 1 of KIP-890 has it
                (self.open_offsets,) = [at for at, _, _ in offsets.offsets.values()]
                return ErrorCode.NONE, None
            case EndTransaction(grant, is_commit, is_v2):
                return self._end(grant, is_commit, is_v2)
        raise AssertionError(question)

    def _open(self, *what: Any) -> None:
        self.state = "Ongoing"
        self.in_it.update(what)

    def _end(
        self, grant: ProducerGrant, is_commit: bool, is_v2: bool
    ) -> tuple[ErrorCode, ProducerGrant | None]:
        done = "CompleteCommit" if is_commit else "CompleteAbort"
        if is_v2 and self.grant == replace(grant, producer_epoch=grant.producer_epoch + 1):
            if self.state == done and self.ended_by == "client":
                return ErrorCode.NONE, self.grant  # the same again
            if self.state.startswith("Complete"):
                return ErrorCode.INVALID_TXN_STATE, None
        if grant != self.grant:
            return ErrorCode.PRODUCER_FENCED, None
        if self.state != "Ongoing":
            if not is_v2 and self.state == done:
                return ErrorCode.NONE, None
            if not is_v2 or is_commit:
                return ErrorCode.INVALID_TXN_STATE, None
        if is_commit:
            self.counted += self.open_rows
            self.counts_of.append(self.open_rows)
            if self.open_offsets is not None:
                self.committed_offsets.append(self.open_offsets)
        self._abort(is_bumped=is_v2)
        self.state, self.ended_by = done, "client"
        return ErrorCode.NONE, self.grant if is_v2 else None

    def append(self, tp: TopicPartition, encoded: bytes) -> ErrorCode:
        header = decode_header(encoded)
        grant = ProducerGrant(header.producer_id, header.producer_epoch)
        assert header.is_transactional
        if grant != self.grant:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = self.sequences.get((tp, grant.producer_epoch), 0)
        if header.base_sequence < expected:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence > expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.is_v2:
            self._open(tp)
        elif self.state != "Ongoing" or tp not in self.in_it:
            return ErrorCode.INVALID_TXN_STATE
        self.sequences[tp, grant.producer_epoch] = header.base_sequence + header.record_count
        self.open_rows += [row.value or b"" for row in decode_records(encoded)]
        return ErrorCode.NONE


class World:
    """One producer, its coordinator, and everything that is under way between them."""

    def __init__(self, *, is_v2: bool) -> None:
        self.pipeline = Pipeline(
            PipelineSettings(
                batch_bytes=150, linger_ms=0, delivery_timeout_ms=2_000, strict=True, transactions=SETTINGS
            )
        )
        assert self.pipeline.transactions is not None
        self.machine = self.pipeline.transactions
        self.coordinator = Coordinator(is_v2)
        self.is_v2 = is_v2
        self.now_ms = 1
        self.asked: list[AskCoordinator] = []
        self.sends: list[SendProduce] = []
        self.late: list[Any] = []  # questions and batches that nobody waits for any more
        self.fates: dict[ProducerBatch, PartFate] = {}
        self.rows: list[bytes] = []  # of the transaction that is open
        self.offsets_of: list[int] = []  # likewise
        self.told_offsets: list[tuple[Outcome, list[int]]] = []
        self.failed = False
        self.told: list[tuple[Outcome, list[bytes]]] = []
        self.number = 0
        self._untold = False
        self.feed(StartAsked())

    def feed(self, event: Event) -> None:
        sent_before = self.machine.sends
        effects = self.pipeline.handle(event, self.now_ms)
        self.fates.update(effects.settled)
        for _, fate in effects.settled:
            assert isinstance(fate, Stored | Refused)
            self.failed |= isinstance(fate, Refused)
        if effects.ask_coordinator is not None:
            assert not self.asked, "one_question"
            self._check(effects.ask_coordinator)
            self.asked.append(effects.ask_coordinator)
        for send in effects.sends:
            for batch in send.batches:
                assert self.machine.sends or sent_before
                assert self.is_v2 or batch.tp in self.machine._added
            self.sends.append(send)
        if self.machine.outcome is not None and self._untold:
            self._untold = False
            self.told.append((self.machine.outcome, self.rows))
            self.told_offsets.append((self.machine.outcome, self.offsets_of))
            self._check_told(*self.told[-1])
        if effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset(effects.ask_leaders_of), dict.fromkeys(TPS, 1)))

    def _check(self, ask: AskCoordinator) -> None:
        question = ask.question
        if isinstance(question, EndTransaction):
            assert self.pipeline.accumulator.unsettled_batches == 0
            if question.is_commit:
                assert not self.failed, "committed_is_stored"
                assert not self.machine.has_offsets

    def _check_told(self, outcome: Outcome, rows: list[bytes]) -> None:
        counted = self.coordinator.counted
        if isinstance(outcome, Committed):
            assert sorted(set(counted) & set(rows)) == rows, "committed_is_stored"
        elif isinstance(outcome, Aborted) or not outcome.is_in_doubt:
            assert not set(rows) & set(counted), "not_stored_is_not_committed"

    # -- what may happen --------------------------------------------------------------------------------

    def moves(self) -> dict[str, Any]:
        found: dict[str, Any] = {"wait": self.wait}
        place = self.machine.place
        if isinstance(place, Ready):
            found["begin"] = self.begin
        if isinstance(place, Open):
            found |= {
                "append": self.append,
                "commit": self.commit,
                "abort": self.abort,
                "offsets": self.offsets,
            }
        if isinstance(place, Broken):
            found |= {"abort": self.abort, "commit": self.commit}
        if isinstance(place, Flushing):
            found["abort"] = self.abort
        if self.asked:
            found |= {"answer": self.answer, "lose": self.lose, "lose unsent": self.lose_unsent}
        if self.sends:
            found |= {"store": self.store, "lose rows": self.lose_rows}
        if self.late:
            found["late"] = self.arrive_late
        return found

    def wait(self, draw: Random) -> None:
        due_ms = self.pipeline.next_deadline_ms()
        self.now_ms = (
            self.now_ms + draw.choice((1, 60, 700)) if due_ms is None else max(due_ms, self.now_ms + 1)
        )
        self.feed(Tick())

    def begin(self, draw: Random) -> None:
        self.failed, self._untold, self.rows, self.offsets_of = False, True, [], []
        self.feed(BeginAsked(self.is_v2))

    def append(self, draw: Random) -> None:
        self.number += 1
        row = b"%04d" % self.number + b"." * draw.choice((0, 80))
        self.rows.append(row)
        self.pipeline.accumulator.append(draw.choice(TPS), Record(0, 0, None, row), self.now_ms)
        self.feed(Tick())

    def offsets(self, draw: Random) -> None:
        if self.machine.has_offsets:
            return
        self.number += 1
        self.offsets_of.append(self.number)
        self.feed(OffsetsAsked(TransactionOffsets("g", {INPUT: (self.number, "", -1)}, "member", 3, None)))

    def commit(self, draw: Random) -> None:
        self.feed(CommitAsked())

    def abort(self, draw: Random) -> None:
        self.feed(draw.choice((AbortAsked(), AbortAsked(), GivenUp(ErrorCode.UNKNOWN, "given up"))))

    def answer(self, draw: Random) -> None:
        ask = self.asked.pop(0)
        if isinstance(ask.question, DescribeOwn):
            own = OwnDescription(self.coordinator.state, self.coordinator.grant)
            self.feed(CoordinatorAnswered(ask.request_id, ErrorCode.NONE, described=own))
            return
        refusals = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if draw.random() < 0.2:
            self.feed(CoordinatorAnswered(ask.request_id, draw.choice(refusals)))
            return
        if draw.random() < 0.03:
            code = draw.choice(FOR_GOOD)
            if code is ErrorCode.UNKNOWN and draw.random() < 0.5:
                self.coordinator.answer(ask.question)  # a fault of its own, behind what it wrote
            self.feed(CoordinatorAnswered(ask.request_id, code))
            return
        code, grant = self.coordinator.answer(ask.question)
        if code is ErrorCode.NONE and draw.random() < 0.1:
            code, grant = ErrorCode.COORDINATOR_NOT_AVAILABLE, None  # it was written, and could not be told
        self.feed(CoordinatorAnswered(ask.request_id, code, grant))

    def lose(self, draw: Random) -> None:
        """The question is lost, or its answer, or it comes late."""
        ask = self.asked.pop(0)
        became = draw.choice(("heard", "late", "gone"))
        if became == "heard" and not isinstance(ask.question, DescribeOwn):
            self.coordinator.answer(ask.question)
        elif became == "late":
            self.late.append(ask.question)
        self.feed(CoordinatorLost(ask.request_id, True, "the connection broke"))

    def lose_unsent(self, draw: Random) -> None:
        ask = self.asked.pop(0)
        self.feed(CoordinatorLost(ask.request_id, False, "no connection"))

    def store(self, draw: Random) -> None:
        send = self.sends.pop(0)
        answers = {}
        for batch in send.batches:
            code = self.coordinator.append(batch.tp, bytes(batch.encoded or b""))
            if draw.random() < 0.05:
                code = ErrorCode.MESSAGE_TOO_LARGE if code else ErrorCode.REQUEST_TIMED_OUT
            answers[batch.tp] = Answer(code, -1)
        self.feed(Answered(send.request_id, answers))

    def lose_rows(self, draw: Random) -> None:
        send = self.sends.pop(0)
        became = draw.choice(("heard", "late", "gone"))
        for batch in send.batches:
            if became == "heard":
                self.coordinator.append(batch.tp, bytes(batch.encoded or b""))
            elif became == "late":
                self.late.append((batch.tp, bytes(batch.encoded or b"")))
        self.feed(Lost(send.request_id, True, "the connection broke"))

    def arrive_late(self, draw: Random) -> None:
        what = self.late.pop(draw.randrange(len(self.late)))
        if isinstance(what, tuple):
            self.coordinator.append(*what)
        elif not isinstance(what, DescribeOwn):
            self.coordinator.answer(what)

    def settle(self, draw: Random) -> None:
        """Everything is answered from now on, so everything comes to its end."""
        for _ in range(400):
            if self.asked:
                ask = self.asked.pop(0)
                if isinstance(ask.question, DescribeOwn):
                    own = OwnDescription(self.coordinator.state, self.coordinator.grant)
                    self.feed(CoordinatorAnswered(ask.request_id, ErrorCode.NONE, described=own))
                else:
                    self.feed(CoordinatorAnswered(ask.request_id, *self.coordinator.answer(ask.question)))
            elif self.sends:
                send = self.sends.pop(0)
                codes = {
                    batch.tp: Answer(self.coordinator.append(batch.tp, bytes(batch.encoded or b"")), -1)
                    for batch in send.batches
                }
                self.feed(Answered(send.request_id, codes))
            elif isinstance(self.machine.place, Open | Broken):
                self.feed(CommitAsked())
            elif isinstance(self.machine.place, Ready | Ended):
                break
            else:
                self.wait(draw)
        assert isinstance(self.machine.place, Ready | Ended), "bounded"
        assert self.pipeline.accumulator.unsettled_batches == 0


_OFTEN = {"answer": 12, "store": 10, "append": 6, "commit": 3, "wait": 2, "begin": 8, "offsets": 2, "late": 3}


def walk(seed: int, *, is_v2: bool, has_rivals: bool) -> World:
    draw = Random(seed)
    world = World(is_v2=is_v2)
    for _ in range(draw.randint(10, 150)):
        if has_rivals and draw.random() < 0.02:
            draw.choice((world.coordinator.time_out, world.coordinator.take_over))()
            continue
        moves = world.moves()
        names = sorted(moves)
        (name,) = draw.choices(names, [_OFTEN.get(name, 1) for name in names])
        moves[name](draw)
    world.settle(draw)
    return world


def check(world: World) -> None:
    """What counts is what was told, and each commit is of one transaction."""
    counted = world.coordinator.counted
    assert len(counted) == len(set(counted))
    for _, rows in world.told:
        parts = [made for made in world.coordinator.counts_of if set(made) & set(rows)]
        assert len(parts) <= 1, "nothing_late_joins"
        assert not parts or set(parts[0]) == set(rows), "nothing_late_joins"
    for outcome, offsets in world.told_offsets:
        found = set(offsets) & set(world.coordinator.committed_offsets)
        if isinstance(outcome, Committed):
            assert found == set(offsets[-1:]), "no_older_offsets"
        elif isinstance(outcome, Aborted) or not outcome.is_in_doubt:
            assert not found, "not_stored_is_not_committed"
    for outcome, rows in world.told:
        if isinstance(outcome, Committed):
            assert set(rows) <= set(counted)
        elif isinstance(outcome, Aborted) or not outcome.is_in_doubt:
            assert not set(rows) & set(counted)
        else:
            assert set(rows) <= set(counted) or not set(rows) & set(counted)


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_what_is_told_is_so(seed: int, is_v2: bool, has_rivals: bool) -> None:
    """Every invariant, by its name."""
    check(walk(seed, is_v2=is_v2, has_rivals=has_rivals))


# -- single stories ---------------------------------------------------------------------------------------------


def started(*, is_v2: bool) -> World:
    world = World(is_v2=is_v2)
    go(world)
    return world


def go(world: World) -> None:
    """Answer everything that is asked and sent, as it comes."""
    while world.asked or world.sends:
        if world.sends:
            send = world.sends.pop(0)
            codes = {
                batch.tp: Answer(world.coordinator.append(batch.tp, bytes(batch.encoded or b"")), -1)
                for batch in send.batches
            }
            world.feed(Answered(send.request_id, codes))
        else:
            ask = world.asked.pop(0)
            if isinstance(ask.question, DescribeOwn):
                own = OwnDescription(world.coordinator.state, world.coordinator.grant)
                world.feed(CoordinatorAnswered(ask.request_id, ErrorCode.NONE, described=own))
            else:
                world.feed(CoordinatorAnswered(ask.request_id, *world.coordinator.answer(ask.question)))


def begun(world: World, *rows: int) -> None:
    world.begin(Random(0))
    for _ in rows:
        world.append(Random(0))
    go(world)


def put_off(world: World) -> Any:
    """The connection breaks behind the question, which is still on its way."""
    ask = world.asked.pop(0)
    world.feed(CoordinatorLost(ask.request_id, True, "the connection broke"))
    world.now_ms += 1_000
    world.feed(Tick())
    return ask.question


@pytest.mark.parametrize("is_v2", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_late_end_of_one_transaction_does_not_end_the_next(is_v2: bool, is_commit: bool) -> None:
    """KAFKA-17754, found by Jepsen: nothing_late_joins."""
    world = started(is_v2=is_v2)
    begun(world, 1)
    world.feed(CommitAsked() if is_commit else AbortAsked())
    late = put_off(world)
    assert isinstance(late, EndTransaction)
    go(world)
    begun(world, 2)
    code, _ = world.coordinator.answer(late)
    # In the second protocol a coordinator that is asked the same again says so once more; else it is too old.
    assert code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
    world.append(Random(0))
    go(world)
    world.feed(CommitAsked())
    go(world)
    check(world)
    assert [type(outcome) for outcome, _ in world.told] == [Committed if is_commit else Aborted, Committed]


@pytest.mark.parametrize("is_v2", [True, False])
def test_a_late_row_of_an_aborted_transaction_does_not_come_into_the_next(is_v2: bool) -> None:
    """KAFKA-14402: nothing_late_joins."""
    world = started(is_v2=is_v2)
    world.begin(Random(0))
    world.append(Random(0))
    while not world.sends:
        world.feed(
            CoordinatorAnswered(
                world.asked[0].request_id, *world.coordinator.answer(world.asked.pop(0).question)
            )
        )
    send = world.sends.pop(0)
    (batch,) = send.batches
    late = bytes(batch.encoded or b"")
    world.feed(Lost(send.request_id, True, "the connection broke"))
    world.feed(AbortAsked())
    go(world)
    begun(world, 1)
    assert world.coordinator.append(batch.tp, late) is ErrorCode.INVALID_PRODUCER_EPOCH
    world.settle(Random(0))
    check(world)
    assert isinstance(world.machine.outcome, Committed)


@pytest.mark.parametrize("is_v2", [True, False])
def test_a_commit_is_asked_for_again_under_its_own_epoch(is_v2: bool) -> None:
    world = started(is_v2=is_v2)
    begun(world, 1)
    world.feed(CommitAsked())
    (ask,) = world.asked
    world.coordinator.answer(ask.question)  # it counts, and nobody hears of it
    again = put_off(world)
    assert [each.question for each in world.asked] == [again]
    go(world)
    assert isinstance(world.machine.outcome, Committed)
    assert len(world.coordinator.counts_of) == 1


def test_rows_wait_until_the_coordinator_knows_their_partition() -> None:
    world = started(is_v2=False)
    world.begin(Random(0))
    world.append(Random(0))
    assert not world.sends
    (ask,) = world.asked
    assert isinstance(ask.question, AddPartitions)
    go(world)
    assert world.coordinator.open_rows


@pytest.mark.parametrize("is_v2", [True, False])
def test_an_empty_transaction_asks_for_nothing(is_v2: bool) -> None:
    world = started(is_v2=is_v2)
    world.begin(Random(0))
    world.feed(CommitAsked())
    assert isinstance(world.machine.outcome, Committed)
    assert isinstance(world.machine.place, Ready)
    assert not world.asked


@pytest.mark.parametrize(("took", "waited_ms"), [("time_out", 6_000), ("take_over", 0), ("take_over", 6_000)])
@pytest.mark.parametrize("is_v2", [True, False])
def test_who_shut_a_producer_out_is_told_apart(is_v2: bool, took: str, waited_ms: int) -> None:
    world = started(is_v2=is_v2)
    begun(world, 1)
    getattr(world.coordinator, took)()
    world.now_ms += waited_ms
    world.feed(CommitAsked())
    go(world)
    place = world.machine.place
    assert isinstance(place, Ended)
    assert place.end is (End.TIMED_OUT if took == "time_out" else End.FENCED)
    assert not place.is_in_doubt
    check(world)


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, End.EXPIRED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, End.REFUSED),
    ],
)
def test_a_refusal_for_good_ends_the_producer(code: ErrorCode, end: End) -> None:
    world = started(is_v2=False)
    begun(world, 1)
    world.feed(CommitAsked())
    world.feed(CoordinatorAnswered(world.asked.pop(0).request_id, code))
    assert isinstance(world.machine.place, Ended)
    assert world.machine.place.end is end
    assert not world.machine.place.is_in_doubt


@pytest.mark.parametrize("is_v2", [True, False])
def test_a_commit_that_is_answered_by_a_code_that_says_nothing_is_in_doubt(is_v2: bool) -> None:
    """A fault of the coordinator's own may come behind its write: not_stored_is_not_committed."""
    world = started(is_v2=is_v2)
    begun(world, 1)
    world.feed(CommitAsked())
    ask = world.asked.pop(0)
    world.coordinator.answer(ask.question)
    world.feed(CoordinatorAnswered(ask.request_id, ErrorCode.of(-1)))
    assert isinstance(world.machine.outcome, Ended)
    assert world.machine.outcome.is_in_doubt
    check(world)


def test_offsets_that_are_refused_are_never_committed_with_the_rows() -> None:
    world = started(is_v2=True)
    begun(world, 1)
    world.offsets(Random(0))
    world.feed(CoordinatorAnswered(world.asked.pop(0).request_id, ErrorCode.ILLEGAL_GENERATION))
    assert isinstance(world.machine.place, Broken)
    world.feed(CommitAsked())
    go(world)
    assert isinstance(world.machine.outcome, Aborted)
    failure = world.machine.outcome.failure
    assert failure is not None
    assert failure.code is ErrorCode.ILLEGAL_GENERATION


def test_offsets_are_asked_for_one_after_the_other() -> None:
    """one_question: the later ones took the place of those that were under way, which then never counted."""
    world = started(is_v2=True)
    begun(world, 1)
    world.offsets(Random(0))
    with pytest.raises(AssertionError, match="offsets are under way"):
        world.machine.handle(
            OffsetsAsked(TransactionOffsets("other", {INPUT: (7, "", -1)}, "", -1, None)), world.now_ms
        )


# -- the table --------------------------------------------------------------------------------------------------

GRANT = ProducerGrant(9, 0)
FAILURE = Failure(ErrorCode.INVALID_RECORD, "why")
PLACES: list[Place] = [
    *(Unstarted(), Starting(GRANT), Ready(), Open(), Broken(FAILURE), Flushing(), Committing(True)),
    *(Aborting(FAILURE), Judging(ErrorCode.PRODUCER_FENCED, "why"), Ended(End.FENCED, ErrorCode.NONE, "why")),
]
Row = tuple[type[Place], Step]
ROWS: set[Row] = {(place, step) for step, moves in TABLE.items() for place in moves}
WALKS_MAX = 3_000


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Row]]:
    rows: set[Row] = set()

    def looks_up(place: Place, step: Step, **told: object) -> Place:
        rows.add((type(place), step))
        return follow(place, step, **told)

    monkeypatch.setattr(transaction, "follow", looks_up)
    yield rows


@pytest.mark.thorough
def test_every_row_is_reached(reached: set[Row]) -> None:
    for seed in range(WALKS_MAX):
        if reached == ROWS:
            return
        walk(seed, is_v2=seed % 2 == 0, has_rivals=seed % 3 == 0)
    assert not ROWS - reached


@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
@pytest.mark.parametrize("step", Step, ids=lambda step: step.name.lower())
def test_a_step_that_has_no_row_is_an_error_that_names_both(place: Place, step: Step) -> None:
    told: dict[str, Any] = {"failure": FAILURE, "code": ErrorCode.NONE, "why": "", "end": End.REFUSED}
    following = TABLE[step].get(type(place))
    if following is None:
        with pytest.raises(AssertionError, match=f"{step.name} .* {type(place).__name__}"):
            follow(place, step, **told)
    else:
        assert type(follow(place, step, **told)) is following


def test_every_code_means_one_thing() -> None:
    for code in ErrorCode:
        means(code)
    assert means(ErrorCode.UNKNOWN) is transaction.Means.REFUSE
