"""The producer's pipeline against a log in memory that judges sequences as a broker does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    LogAnswered,
    Lost,
    SendProduce,
    Tick,
    Trouble,
)
from semel.core.client.fate import Fenced, InDoubt, PartFate, Refused, Stored
from semel.core.client.partition_queue import KNOWN_FOR_MS
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.verdict import Append, error_code
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition

TP = TopicPartition("t", 0)
GRANT = ProducerGrant(7, 0)
RAISED = ProducerGrant(7, 1)
SMALL = PipelineSettings(batch_bytes=90, linger_ms=0, delivery_timeout_ms=1_000)


class Bench:
    """A pipeline with a clock that the test moves. ``known``: as if the log had taken a batch just now."""

    def __init__(self, settings: PipelineSettings = SMALL, *, known: bool = True) -> None:
        self.pipeline = Pipeline(settings)
        self.now_ms = 0
        self.leader = 1
        self.sends: list[SendProduce] = []
        self.fates: dict[ProducerBatch, PartFate] = {}
        self.asked_grants = 0
        self.asked_log: list[ProducerGrant] = []
        self.feed(Granted(GRANT))
        self.feed(LeadersKnown(frozenset({"t"}), {TP: 1}))
        if known:
            queue = self.pipeline.accumulator.begin(TP)
            queue.adopt(GRANT)
            queue.known_until_ms = 10**9

    def feed(self, event: Event) -> Effects:
        effects = self.pipeline.handle(event, self.now_ms)
        self.sends += effects.sends
        self.fates.update(effects.settled)
        self.asked_grants += effects.ask_grant
        self.asked_log += [grant for _, grant in effects.ask_log]
        if effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset(effects.ask_leaders_of), {TP: self.leader}))
        return effects

    def append(self, *values: str) -> list[ProducerBatch]:
        batches = []
        for value in values:
            batch, _, _ = self.pipeline.accumulator.append(
                TP, Record(0, 0, None, value.encode()), self.now_ms
            )
            batches.append(batch)
        self.feed(Tick())
        return batches

    def tick(self, after_ms: int = 2_000) -> None:
        self.now_ms += after_ms
        self.feed(Tick())

    def answer(self, send: SendProduce, code: ErrorCode, base_offset: int = -1) -> None:
        self.feed(Answered(send.request_id, {TP: Answer(code, base_offset)}))

    def lose(self, send: SendProduce) -> None:
        self.feed(Lost(send.request_id, sent=True, why="the connection broke"))

    def take_sends(self) -> list[SendProduce]:
        sends, self.sends = self.sends, []
        return sends


def sequences(sends: Iterable[SendProduce]) -> list[int]:
    return [batch.base_sequence for send in sends for batch in send.batches]


def long(letter: str) -> str:
    return letter * 60


def test_sequences_are_dense_and_at_most_five_are_in_flight() -> None:
    bench = Bench()
    bench.append(*(long(letter) for letter in "abcdefg"))
    sends = bench.take_sends()
    assert sequences(sends) == [0, 1, 2, 3, 4]
    bench.answer(sends[0], ErrorCode.NONE, 0)
    assert sequences(bench.take_sends()) == [5]


def test_the_first_goes_alone_until_the_log_knows_the_producer() -> None:
    bench = Bench(known=False)
    bench.append(*(long(letter) for letter in "abc"))
    (first,) = bench.take_sends()
    bench.answer(first, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.tick(after_ms=200)
    (first,) = bench.take_sends()
    assert sequences([first]) == [0]
    bench.answer(first, ErrorCode.NONE, 0)
    assert sequences(bench.take_sends()) == [1, 2]


def test_a_producer_that_was_silent_for_long_is_held_to_be_forgotten() -> None:
    bench = Bench(known=False)
    bench.append("a")
    bench.answer(bench.take_sends()[0], ErrorCode.NONE, 0)
    bench.now_ms += KNOWN_FOR_MS
    bench.append(long("b"), long("c"))
    assert sequences(bench.take_sends()) == [1]


def test_the_bytes_carry_grant_and_sequence_and_a_good_crc() -> None:
    bench = Bench()
    (batch,) = bench.append(long("a"))
    assert batch.encoded is not None
    header = decode_header(batch.encoded)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    assert [row.value for row in decode_records(batch.encoded)] == [long("a").encode()]


def test_a_failed_batch_re_enters_in_sequence_order_and_those_behind_wait() -> None:
    bench = Bench()
    bench.append(*(long(letter) for letter in "abcdef"))
    sends = bench.take_sends()
    bench.lose(sends[1])
    bench.lose(sends[0])
    bench.now_ms += 500
    bench.feed(Tick())
    assert bench.take_sends() == []  # answers for those behind are outstanding
    for send in sends[2:]:
        bench.answer(send, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.now_ms += 200
    bench.feed(Tick())
    assert sequences(bench.take_sends()) == [0, 1, 2, 3, 4]
    assert bench.asked_log == []


def test_after_a_leader_change_the_line_moves_in_order_once_the_old_leaders_answers_are_in() -> None:
    bench = Bench()
    batches = bench.append(*(long(letter) for letter in "abcdefg"))
    sends = bench.take_sends()
    bench.answer(sends[0], ErrorCode.NONE, 0)
    bench.leader = 2
    (sixth,) = bench.take_sends()
    for send in (*sends[1:4], sixth):
        bench.answer(send, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.tick(200)
    assert bench.take_sends() == []  # the old leader still owes an answer: it may have appended that one
    bench.lose(sends[4])
    bench.tick(200)
    moved = bench.take_sends()
    assert {send.node_id for send in moved} == {2}
    assert sequences(moved) == [1, 2, 3, 4, 5]
    for offset, send in enumerate(moved, 1):
        bench.answer(send, ErrorCode.NONE, offset)
    (last,) = bench.take_sends()
    bench.answer(last, ErrorCode.NONE, 6)
    assert [fate for fate in bench.fates.values() if not isinstance(fate, Stored)] == []
    assert [bench.fates[batch].base_offset for batch in batches] == list(range(7))  # type: ignore[union-attr]


def test_a_duplicate_is_stored_without_an_offset() -> None:
    bench = Bench()
    (batch,) = bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert bench.fates[batch] == Stored(GRANT, 0, None, -1)


def test_no_blind_epoch_the_log_decides_about_45() -> None:
    bench = Bench()
    (batch,) = bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.asked_log == [GRANT]
    bench.feed(LogAnswered(TP, 0, 0, GRANT))
    assert bench.fates[batch] == Stored(GRANT, 0, None, -1)
    assert bench.asked_grants == 0


def test_45_from_a_log_that_has_a_newer_epoch_is_a_fence() -> None:
    bench = Bench()
    (batch,) = bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.feed(LogAnswered(TP, 3, -1, GRANT))
    fate = bench.fates[batch]
    assert isinstance(fate, Fenced) and fate.newer_epoch == 3


def test_sequences_behind_a_batch_that_failed_for_good_are_adjusted() -> None:
    """What was never sent takes its sequence."""
    bench = Bench(known=False)
    batches = bench.append(*(long(letter) for letter in "abc"))
    (first,) = bench.take_sends()  # alone, for the log does not know the producer yet
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)  # one row: it cannot be split
    assert isinstance(bench.fates[batches[0]], Refused)
    (second,) = bench.take_sends()
    assert (second.batches[0].grant, second.batches[0].base_sequence) == (GRANT, 0)


def test_the_epoch_is_raised_when_something_behind_a_failed_batch_was_sent() -> None:
    """Also if all of it was answered: a request may come a second time, and would be the next one in line."""
    bench = Bench()
    bench.append(*(long(letter) for letter in "abc"))
    first, second, third = bench.take_sends()
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)
    bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.answer(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    (again,) = bench.take_sends()
    assert (again.batches[0].grant, again.batches[0].base_sequence) == (RAISED, 0)
    assert len(bench.fates) == 1


def test_the_epoch_is_raised_when_the_sequences_behind_a_failed_batch_cannot_be_adjusted() -> None:
    """A delayed copy with the old sequence could be taken for the batch that has it now.

    Once the log has something of the raised epoch, no delayed copy gets in any more.
    """
    bench = Bench()
    batches = bench.append(*(long(letter) for letter in "abc"))
    first, second, third = bench.take_sends()
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)
    bench.lose(second)
    bench.answer(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert isinstance(bench.fates[batches[1]], InDoubt)
    bench.tick(after_ms=200)
    (again,) = bench.take_sends()
    assert (again.batches[0].grant, again.batches[0].base_sequence) == (RAISED, 0)
    assert bench.asked_grants == 0


def second_failed() -> tuple[Bench, list[ProducerBatch], SendProduce]:
    """Of two that are in flight, the second is refused for good; the first is not answered yet."""
    bench = Bench()
    batches = bench.append(long("a"), long("b"))
    first, second = bench.take_sends()
    bench.answer(second, ErrorCode.MESSAGE_TOO_LARGE)
    return bench, batches, first


def test_what_is_in_front_of_a_failed_batch_is_settled_first_under_its_own_sequence() -> None:
    """Under a raised epoch it would be stored twice if the network delivered its first request once more."""
    bench, batches, first = second_failed()
    bench.answer(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.append(long("c"))
    bench.tick(after_ms=200)
    (again,) = bench.take_sends()
    assert (again.batches[0], again.batches[0].grant, again.batches[0].base_sequence) == (
        batches[0],
        GRANT,
        0,
    )
    bench.answer(again, ErrorCode.NONE, 0)
    (behind,) = bench.take_sends()
    assert (behind.batches[0].grant, behind.batches[0].base_sequence) == (GRANT, 1)


def test_45_for_what_is_in_front_of_a_gap_asks_the_log() -> None:
    """It is not the gap that it is told of."""
    bench, _, first = second_failed()
    bench.answer(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.asked_log == [GRANT]


def test_what_is_in_front_of_a_batch_in_doubt_is_settled_first_too() -> None:
    bench = Bench()
    batches = bench.append(long("a"), long("b"))
    for send in bench.take_sends():
        bench.lose(send)
    bench.tick(after_ms=200)
    first, second = bench.take_sends()
    bench.answer(second, ErrorCode.INVALID_TIMESTAMP)
    assert isinstance(bench.fates[batches[1]], InDoubt)
    bench.answer(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.append(long("c"))
    bench.tick(after_ms=400)
    (again,) = bench.take_sends()
    assert (again.batches[0], again.batches[0].grant) == (batches[0], GRANT)
    bench.answer(again, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert isinstance(bench.fates[batches[0]], Stored)
    (behind,) = bench.take_sends()
    assert (behind.batches[0].grant, behind.batches[0].base_sequence) == (RAISED, 0)


def test_a_gap_begins_with_the_first_batch_that_failed() -> None:
    bench, _, first = second_failed()
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)
    bench.append(long("c"))
    assert sequences(bench.take_sends()) == [0]


def test_an_id_whose_epochs_are_used_up_is_given_back_for_a_new_one() -> None:
    last, fresh = ProducerGrant(7, PRODUCER_EPOCH_MAX), ProducerGrant(8, 0)
    bench = Bench(known=False)
    bench.feed(Granted(last))
    bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.UNKNOWN_PRODUCER_ID)
    assert bench.asked_grants == 1
    bench.feed(Granted(fresh))
    (again,) = bench.take_sends()
    assert (again.batches[0].grant, again.batches[0].base_sequence) == (fresh, 0)


def test_the_identity_is_reset_when_retries_run_out() -> None:
    """What of the old epoch is under way comes too late, and what waited behind it begins at 0."""
    bench = Bench()
    (failed,) = bench.append(long("a"))
    bench.now_ms = 500
    (behind,) = bench.append(long("b"))
    while failed not in bench.fates:
        for send in bench.take_sends():
            bench.lose(send) if failed in send.batches else bench.answer(
                send, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            )
        bench.tick(after_ms=100)
    assert isinstance(bench.fates[failed], InDoubt)
    bench.tick(after_ms=100)
    (again,) = bench.take_sends()
    assert again.batches == (behind,)
    assert (behind.grant, behind.base_sequence) == (RAISED, 0)


def test_an_identity_is_kept_when_what_expires_was_never_sent() -> None:
    bench = Bench()
    bench.leader = 0
    bench.pipeline.leaders.forget(TP)
    assert bench.pipeline.leaders.ask_if_due("t", bench.now_ms + 1_000)  # and nobody answers
    (expired,) = bench.append(long("a"))
    bench.tick()
    fate = bench.fates[expired]
    assert isinstance(fate, Refused)
    bench.feed(LeadersKnown(frozenset({"t"}), {TP: 1}))
    (later,) = bench.append(long("b"))
    bench.take_sends()
    assert (later.grant, later.base_sequence) == (GRANT, 0)


def test_a_too_large_batch_is_split_with_its_sequences_right() -> None:
    bench = Bench(PipelineSettings(batch_bytes=10_000, linger_ms=0))
    bench.append(*(long(letter) for letter in "abcd"))
    (send,) = bench.take_sends()
    bench.answer(send, ErrorCode.MESSAGE_TOO_LARGE)
    halves = bench.take_sends()
    assert sequences(halves) == [0, 2]
    assert [batch.record_count for half in halves for batch in half.batches] == [2, 2]


def test_a_batch_that_expires_in_the_queue_before_it_was_ever_sent_is_not_stored() -> None:
    bench = Bench()
    bench.pipeline.handle(LeadersKnown(frozenset({"t"}), {}), 0)
    bench.append(*(long(letter) for letter in "abcdef"))
    sends = bench.take_sends()
    for send in sends:
        bench.lose(send)
    bench.tick()
    kinds = [type(fate) for fate in bench.fates.values()]
    assert kinds == [InDoubt] * 5 + [Refused]


def test_a_strict_partition_stops_at_its_first_failure() -> None:
    bench = Bench(PipelineSettings(batch_bytes=90, linger_ms=0, strict=True))
    batches = bench.append(*(long(letter) for letter in "abc"))
    first, second, third = bench.take_sends()
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)
    bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.answer(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [type(bench.fates[batch]) for batch in batches] == [Refused] * 3
    assert bench.take_sends() == []


def test_the_epoch_of_a_forgotten_producer_id_is_raised_when_nothing_is_in_doubt() -> None:
    bench = Bench()
    bench.append(long("a"), long("b"))
    first, second = bench.take_sends()
    bench.answer(first, ErrorCode.UNKNOWN_PRODUCER_ID)
    bench.answer(second, ErrorCode.UNKNOWN_PRODUCER_ID)
    (first,) = bench.take_sends()
    assert first.batches[0].grant == RAISED
    bench.answer(first, ErrorCode.NONE, 0)
    assert sequences([first, *bench.take_sends()]) == [0, 1]


def test_halves_of_a_split_batch_keep_their_order_when_both_come_back() -> None:
    bench = Bench(PipelineSettings(batch_bytes=10_000, linger_ms=0))
    bench.append(*(long(letter) for letter in "abcd"))
    (send,) = bench.take_sends()
    bench.answer(send, ErrorCode.MESSAGE_TOO_LARGE)
    first, second = bench.take_sends()
    bench.answer(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.tick(after_ms=500)
    assert sequences(bench.take_sends()) == [0, 2]


def test_halves_of_a_batch_in_doubt_are_in_doubt() -> None:
    """Its first attempt may have been appended before the limit was lowered."""
    bench = Bench(PipelineSettings(batch_bytes=10_000, linger_ms=0, delivery_timeout_ms=1_000))
    bench.append(*(long(letter) for letter in "abcd"))
    bench.lose(bench.take_sends()[0])
    bench.tick(after_ms=200)
    bench.answer(bench.take_sends()[0], ErrorCode.MESSAGE_TOO_LARGE)
    for half in bench.take_sends():
        bench.answer(half, ErrorCode.MESSAGE_TOO_LARGE)
    quarters = bench.take_sends()
    for quarter in quarters:
        bench.answer(quarter, ErrorCode.MESSAGE_TOO_LARGE)
    assert {type(fate) for fate in bench.fates.values()} == {InDoubt}


def test_45_for_the_first_in_line_asks_the_log_though_others_are_in_flight_behind() -> None:
    """All are refused alike after a log lost its tail: without the question they would circle for ever."""
    bench = Bench()
    batches = bench.append(*(long(letter) for letter in "abc"))
    sends = bench.take_sends()
    for send in sends:
        bench.answer(send, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.asked_log == [GRANT]
    assert bench.take_sends() == []
    bench.feed(LogAnswered(TP, 0, 1, GRANT))
    assert list(bench.fates) == batches[:2]
    bench.tick(after_ms=200)
    (send,) = bench.take_sends()
    bench.answer(send, ErrorCode.NONE)
    assert all(isinstance(bench.fates[batch], Stored) for batch in batches)


def test_an_answer_about_an_older_grant_says_nothing_about_the_new_one() -> None:
    """It was asked for a batch that has expired since; its sequences are another producer's."""
    bench = Bench()
    bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.tick(after_ms=1_000)
    (batch,) = bench.append(long("b"))
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.asked_log == [GRANT, RAISED]
    bench.feed(LogAnswered(TP, 0, 40, GRANT))
    assert batch not in bench.fates
    bench.feed(LogAnswered(TP, RAISED.producer_epoch, 0, RAISED))
    assert bench.fates[batch] == Stored(RAISED, 0, None, -1)


def test_no_deadline_lies_in_the_past_while_a_node_is_busy() -> None:
    """Else the shell's timer would spin until the node answers."""
    bench = Bench(PipelineSettings(batch_bytes=90, linger_ms=0, in_flight_max=1))
    bench.feed(LeadersKnown(frozenset({"t"}), {TP: 1, TopicPartition("t", 1): 1}))
    bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.pipeline.accumulator.append(TopicPartition("t", 1), Record(0, 0, None, b"x"), bench.now_ms)
    bench.feed(Tick())  # takes the node's one place
    bench.tick(after_ms=500)
    deadline_ms = bench.pipeline.next_deadline_ms()
    assert deadline_ms is not None and deadline_ms > bench.now_ms


def test_a_retry_under_the_old_grant_has_a_deadline_while_a_new_one_is_asked_for() -> None:
    other = TopicPartition("t", 1)
    bench = Bench(replace(SMALL, raises_epoch=False))
    bench.feed(LeadersKnown(frozenset({"t"}), {TP: 1, other: 1}))
    bench.append(long("a"))
    bench.pipeline.accumulator.append(other, Record(0, 0, None, b"x"), bench.now_ms)
    bench.feed(Tick())
    first, second = bench.take_sends()
    bench.feed(Answered(second.request_id, {other: Answer(ErrorCode.NOT_ENOUGH_REPLICAS)}))
    bench.answer(first, ErrorCode.UNKNOWN_PRODUCER_ID)
    assert bench.pipeline.grants.newest is None
    assert bench.pipeline.next_deadline_ms() == 50


def test_flush_ends_the_lingering_of_what_is_there_and_of_nothing_later() -> None:
    bench = Bench(PipelineSettings(linger_ms=1_000))
    (before,) = bench.append("a")
    bench.pipeline.accumulator.seal()
    bench.feed(Tick())
    (send,) = bench.take_sends()
    assert send.batches == (before,)
    bench.append("b")
    assert bench.take_sends() == []
    assert bench.pipeline.accumulator.unsettled_batches == 2


def test_a_refusal_is_kept_for_the_batch_that_it_is_about() -> None:
    """What is in flight behind it is refused for the gap, and that is no news about the front one."""
    bench = Bench()
    batches = bench.append(long("a"), long("b"))
    first, second = bench.take_sends()
    bench.answer(first, ErrorCode.INVALID_RECORD)
    bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.feed(LogAnswered(TP, 0, -1, GRANT))
    fate = bench.fates[batches[0]]
    assert isinstance(fate, Refused) and fate.code is ErrorCode.INVALID_RECORD
    assert sequences(bench.take_sends()) == [0]


def test_the_refusal_of_a_batch_behind_is_not_the_front_ones() -> None:
    bench = Bench()
    batches = bench.append(long("a"), long("b"))
    first, second = bench.take_sends()
    bench.answer(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.answer(second, ErrorCode.INVALID_RECORD)
    bench.feed(LogAnswered(TP, 0, -1, GRANT))
    assert batches[0] not in bench.fates


def test_a_gap_is_not_closed_with_sequences_that_are_stored() -> None:
    """Two leaders answered, the old one late: the batch that got such a sequence would pass for a duplicate."""
    bench = Bench()
    bench.append(*(long(letter) for letter in "abc"))
    first, second, third = bench.take_sends()
    bench.answer(second, ErrorCode.MESSAGE_TOO_LARGE)
    bench.append(long("d"))
    assert not bench.take_sends(), "it would only be told of the gap"
    bench.answer(third, ErrorCode.NONE, 2)
    bench.answer(first, ErrorCode.NONE, 0)
    assert sequences(bench.take_sends()) == [3]


def test_a_fence_reaches_what_was_in_flight_too() -> None:
    bench = Bench()
    batches = bench.append(long("a"), long("b"), long("c"))
    first, second, _third = bench.take_sends()
    bench.answer(first, ErrorCode.INVALID_PRODUCER_EPOCH)
    bench.lose(second)
    assert [type(bench.fates[batch]) for batch in batches[:2]] == [Fenced, Fenced]
    fate = bench.fates[batches[1]]
    assert isinstance(fate, Fenced) and fate.maybe_stored


def test_rows_that_expire_say_what_kept_them() -> None:
    bench = Bench()
    bench.pipeline.grants.newest = None
    (batch,) = bench.append("a")
    bench.feed(Trouble("CLUSTER_AUTHORIZATION_FAILED"))
    bench.tick()
    fate = bench.fates[batch]
    assert isinstance(fate, Refused) and "CLUSTER_AUTHORIZATION_FAILED" in fate.why


def test_rows_that_expire_behind_a_batch_that_was_refused_name_its_refusal() -> None:
    """Those on their way behind it are out of sequence for it, which is no cause of anything."""
    bench = Bench()
    front, behind = bench.append(long("a"), long("b"))
    first, second = bench.take_sends()
    bench.answer(first, ErrorCode.KAFKA_STORAGE_ERROR)
    bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.tick()
    for batch in (front, behind):
        fate = bench.fates[batch]
        assert isinstance(fate, Refused | InDoubt)
        assert "KAFKA_STORAGE_ERROR" in fate.why and "OUT_OF_ORDER" not in fate.why


def test_rows_that_expire_say_what_their_leader_refused_them_with() -> None:
    bench = Bench()
    refused, behind = bench.append(long("a"), long("b"))
    for send in bench.take_sends():
        answer = Answer(ErrorCode.KAFKA_STORAGE_ERROR, message="No space left on device")
        bench.feed(Answered(send.request_id, {TP: answer}))
    bench.tick()
    for batch in (refused, behind):
        fate = bench.fates[batch]
        assert isinstance(fate, InDoubt | Refused)
        assert "KAFKA_STORAGE_ERROR: No space left on device" in fate.why, fate.why


def test_what_a_leader_said_before_it_stored_something_is_no_reason() -> None:
    bench = Bench()
    (stored,) = bench.append(long("a"))
    (send,) = bench.take_sends()
    bench.answer(send, ErrorCode.KAFKA_STORAGE_ERROR)
    bench.tick(500)
    (send,) = bench.take_sends()
    bench.answer(send, ErrorCode.NONE, 0)
    assert isinstance(bench.fates[stored], Stored)
    bench.leader = -1
    bench.pipeline.handle(LeadersKnown(frozenset({"t"}), {}), bench.now_ms)
    (late,) = bench.append(long("b"))
    for send in bench.take_sends():
        bench.lose(send)
    bench.tick()
    fate = bench.fates[late]
    assert isinstance(fate, InDoubt | Refused) and "KAFKA_STORAGE_ERROR" not in fate.why


@settings(max_examples=settings().max_examples * 2)
@given(
    st.lists(st.sampled_from(["store", "store and lose", "lose", "not leader"]), max_size=60),
    st.integers(1, 25),
    st.booleans(),
)
@example(["not leader"], 2, True)
def test_every_row_is_stored_once_and_in_order_whatever_is_lost(
    faults: list[str], row_count: int, takes_any_first: bool
) -> None:
    """A broker with one connection: what it loses it loses before or after the append.

    ``takes_any_first``: it is Apache Kafka, which begins with whatever comes from a producer that it does not
    know. Without the rule of the first batch, the example stored row 1 and then told that row 0 was stored.
    """
    bench = Bench(PipelineSettings(batch_bytes=90, linger_ms=0, delivery_timeout_ms=10**9), known=False)
    bench.append(*(f"{row:060d}" for row in range(row_count)))
    log: list[int] = []
    script = iter(faults)
    for _ in range(2_000):
        sends = bench.take_sends()
        if not sends and bench.pipeline.accumulator.unsettled_batches == 0:
            break
        for send in sends:
            (batch,) = send.batches
            fault = next(script, "store")
            judged = (
                judge(log, batch, takes_any_first)
                if fault in ("store", "store and lose")
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            if fault in ("lose", "store and lose"):
                bench.lose(send)
            else:
                bench.answer(send, judged)
        for _ in bench.asked_log:
            bench.feed(LogAnswered(TP, 0, log[-1] if log else -1, GRANT))
        bench.asked_log.clear()
        bench.now_ms += 1_000
        bench.feed(Tick())
    assert log == list(range(row_count))
    assert all(isinstance(fate, Stored) for fate in bench.fates.values())


def judge(log: list[int], batch: ProducerBatch, takes_any_first: bool) -> ErrorCode:
    """Each row is its own sequence."""
    assert batch.encoded is not None
    if batch.base_sequence in log:
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    expected = log[-1] + 1 if log else 0
    if batch.base_sequence != expected and not (takes_any_first and not log):
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log += [int(row.value or b"") for row in decode_records(batch.encoded)]
    return ErrorCode.NONE


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.sets(st.integers(0, 20)),
    st.lists(st.integers(0, 6), max_size=60),
)
@example([1, 2, 1], {1}, [0, 0, 0, 2])
def test_rows_behind_a_refused_one_are_stored_once_whatever_comes_again(
    bursts: list[int], too_large: set[int], copies: list[int]
) -> None:
    """After each request the network may deliver an earlier one again, which nobody waits for: so many before it.

    The example: row 2 is behind row 1, and told of a gap. Sent again under the same epoch with the sequence of row 1,
    it was stored; so was a copy of its first request, for that was the next in line; and row 3, which had the
    sequence of that copy, was told that it is stored.
    """
    bench = Bench(PipelineSettings(batch_bytes=90, linger_ms=0, delivery_timeout_ms=10**9))
    log: list[int] = []
    producers, requests, rows = ProducerState(), list[bytes](), 0
    script = iter(copies)

    def deliver(batch: bytes) -> ErrorCode:
        header, found = decode_header(batch), [int(row.value or b"") for row in decode_records(batch)]
        if too_large.intersection(found):
            return ErrorCode.MESSAGE_TOO_LARGE
        verdict = producers.judge(header)
        if isinstance(verdict, Append):
            producers.apply(header, producers.end_offset, 0)
            log.extend(found)
        return error_code(verdict)

    for burst in bursts:
        bench.append(*(f"{row:060d}" for row in range(rows, rows + burst)))
        rows += burst
        for _ in range(100):
            bench.tick(after_ms=100)
            for send in bench.take_sends():
                requests.append(bytes(send.batches[0].encoded or b""))
                bench.answer(send, deliver(requests[-1]))
                if 0 < (back := next(script, 0)) <= len(requests):
                    deliver(requests[-back])
            for _ in bench.asked_log:
                known = producers.get(GRANT.producer_id)
                told = (None, None) if known is None else (known.producer_epoch, known.last_sequence)
                bench.feed(LogAnswered(TP, *told, bench.asked_log[-1]))
            bench.asked_log.clear()
            if not bench.pipeline.accumulator.unsettled_batches:
                break
    assert log == [row for row in range(rows) if row not in too_large]
    fates = list(map(type, bench.fates.values()))
    assert fates.count(Refused) == len(too_large.intersection(range(rows)))
    assert fates.count(Stored) == len(log)
