"""Writing under leases: the pipeline against logs in memory that let leases end, forget, and take late copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

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
    LeadersKnown,
    Leased,
    LeaseRefused,
    LogAnswered,
    LogSilent,
    Lost,
    NoLeases,
    ReadBack,
    SendProduce,
    Tick,
)
from semel.core.client.fate import InDoubt, PartFate, Refused, Stored
from semel.core.client.leasing import LEASE_ANEW_AT
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.core.lease import LiveLeases
from semel.errors import ErrorCode
from semel.record.batch import Record
from semel.record.control import encode_abort_marker
from semel.types import Lease, ProducerGrant, TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
LENGTH_MS = 1_000
HALF_MS = int(LENGTH_MS * LEASE_ANEW_AT)
DELIVERY_MS = 20_000
SETTINGS = PipelineSettings(batch_bytes=90, linger_ms=0, delivery_timeout_ms=DELIVERY_MS, lease=True)


class Sent(NamedTuple):
    """A batch as its bytes were when they left."""

    grant: ProducerGrant
    encoded: bytes

    @classmethod
    def of(cls, batch: ProducerBatch) -> Self:
        assert batch.grant is not None
        return cls(batch.grant, bytes(batch.encoded or b""))


class World:
    """A pipeline, two partitions' logs and the server's leases, all on one clock that the test moves."""

    def __init__(self, pipeline_settings: PipelineSettings = SETTINGS) -> None:
        self.pipeline = Pipeline(pipeline_settings)
        self.now_ms = 10_000
        self.leases = LiveLeases()
        self.logs = {TP: LogInMemory(self.leases), OTHER: LogInMemory(self.leases)}
        self.ends_ms: dict[int, int] = {}  # when each lease that lives is over, for the server
        self.requests: list[tuple[SendProduce, dict[TopicPartition, Sent]]] = []
        self.judged: dict[int, dict[TopicPartition, Answer]] = {}  # by request: on the way back
        self.lease_questions: list[int] = []  # when each was asked
        self.log_questions: list[tuple[TopicPartition, ProducerGrant]] = []
        self.questions_asked_ms: list[int] = []
        self.described: list[LogAnswered] = []  # on the way back
        self.read_backs: list[ReadBack] = []
        self.told: list[LogAnswered] = []
        self.said_to_be_stored: set[ProducerBatch] = set()  # by a log, before it had a fate
        self.fates: dict[ProducerBatch, PartFate] = {}
        self.settled_ms: dict[ProducerBatch, int] = {}
        self.values_of: dict[ProducerBatch, list[str]] = {}  # by the batch as it was appended
        self.late_copies: list[tuple[TopicPartition, Sent]] = []
        self.appended: dict[TopicPartition, list[str]] = {TP: [], OTHER: []}
        self.feed(LeadersKnown(frozenset({"t"}), {TP: 1, OTHER: 1}))

    def feed(self, event: Event) -> None:
        if isinstance(event, LogAnswered):
            self.told.append(event)
        effects: Effects = self.pipeline.handle(event, self.now_ms)
        self.fates.update(effects.settled)
        self.said_to_be_stored.update(
            batch for batch, _ in effects.settled if self.is_said_to_be_stored(batch)
        )
        self.settled_ms.update((batch, self.now_ms) for batch, _ in effects.settled)
        if effects.ask_lease is not None:
            self.lease_questions.append(self.now_ms)
        self.log_questions += effects.ask_log
        self.questions_asked_ms += [self.now_ms] * len(effects.ask_log)
        self.read_backs += effects.read_back
        for send in effects.sends:
            for batch in send.batches:
                ends_ms = self.pipeline.accumulator.of(batch.tp).hold.ends_ms
                assert ends_ms is None or self.now_ms < ends_ms, "sent after its lease was over"
            self.requests.append((send, {batch.tp: Sent.of(batch) for batch in send.batches}))
        if effects.ask_leaders_of:
            self.feed(LeadersKnown(frozenset(effects.ask_leaders_of), {TP: 1, OTHER: 1}))

    def is_said_to_be_stored(self, batch: ProducerBatch) -> bool:
        return any(
            (answer.tp, answer.asked_for) == (batch.tp, batch.grant) and batch.is_within(answer.stored_to)
            for answer in self.told
        )

    def append(self, *values: str, tp: TopicPartition = TP) -> list[ProducerBatch]:
        batches = []
        for value in values:
            text = value.ljust(60, ".")
            batches.append(
                self.pipeline.accumulator.append(tp, Record(0, 0, None, text.encode()), self.now_ms)[0]
            )
            self.appended[tp].append(text)
            self.values_of.setdefault(batches[-1], []).append(text)
        self.feed(Tick())
        return batches

    def at(self, now_ms: int) -> None:
        assert now_ms >= self.now_ms
        self.now_ms = now_ms
        for producer_id in [one for one, ends_ms in self.ends_ms.items() if now_ms >= ends_ms]:
            self.end_lease(producer_id)
        self.feed(Tick())

    # -- leases

    def end_lease(self, producer_id: int) -> None:
        """It is over for the server, and so are those before it; the logs forget them."""
        del self.ends_ms[producer_id]
        self.leases.expired_below = producer_id + 1
        for log in self.logs.values():
            log.forget_expired()

    def lease(self, *, spent_ms: int = 0, server_spares_ms: int = 0) -> ProducerGrant:
        """Answer the oldest question, ``spent_ms`` after it came."""
        asked_ms = self.lease_questions.pop(0)
        self.now_ms += spent_ms
        grant = ProducerGrant(self.leases.granted_below, 3)
        self.leases.granted_below += 1
        # Leases end in the order of their grants.
        longest_ms = max(self.ends_ms.values(), default=0)
        self.ends_ms[grant.producer_id] = max(longest_ms, self.now_ms + LENGTH_MS + server_spares_ms)
        lease = Lease(grant.producer_id, grant.producer_epoch, LENGTH_MS, LENGTH_MS, {})
        self.feed(Leased(lease, asked_ms))
        return grant

    # -- requests

    def take(self, at: int = 0) -> tuple[SendProduce, dict[TopicPartition, Sent]]:
        return self.requests.pop(at)

    def judge(self, tp: TopicPartition, sent: Sent) -> Answer:
        """As the server does."""
        return Answer(*self.logs[tp].take(sent.encoded))

    def arrive(self) -> None:
        """The oldest request that has not reached the server does; its answer is on its way."""
        send, sent = next(one for one in self.requests if one[0].request_id not in self.judged)
        self.judged[send.request_id] = {tp: self.judge(tp, one) for tp, one in sent.items()}

    def answer(self, at: int = 0) -> None:
        send, sent = self.take(at)
        judged = self.judged.pop(send.request_id, None)
        self.feed(Answered(send.request_id, judged or {tp: self.judge(tp, one) for tp, one in sent.items()}))

    def refuse(self, code: ErrorCode, at: int = 0) -> None:
        """Nothing of it is stored."""
        send, sent = self.take(at)
        assert send.request_id not in self.judged
        self.feed(Answered(send.request_id, dict.fromkeys(sent, Answer(code))))

    def refuse_for_now(self, at: int = 0) -> None:
        if self.requests[at][0].request_id not in self.judged:
            self.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED, at)

    def copy(self, at: int = 0) -> None:
        """The network delivers it twice, the second time whenever it likes, and tells nobody."""
        self.late_copies += self.requests[at][1].items()

    def lose(self, at: int = 0, *, arrives: bool) -> None:
        """No answer comes; the request arrives now, or later, or never."""
        send, sent = self.take(at)
        is_judged = self.judged.pop(send.request_id, None) is not None
        for tp, one in () if is_judged else sent.items():
            if arrives:
                self.judge(tp, one)
            else:
                self.late_copies.append((tp, one))
        self.feed(Lost(send.request_id, sent=True, why="the connection broke"))

    # -- questions about logs

    def describe(self) -> None:
        self.look()
        self.tell()

    def look(self) -> None:
        """The oldest question about a log has reached the server; the answer is on its way."""
        asked_ms = self.questions_asked_ms.pop(0)
        tp, grant = self.log_questions.pop(0)
        remaining_ms = self.ends_ms.get(grant.producer_id, self.now_ms) - self.now_ms
        self.described.append(self.logs[tp].describe(tp, grant, remaining_ms, asked_ms))

    def tell(self) -> None:
        self.feed(self.described.pop(0))

    def be_silent(self) -> None:
        self.questions_asked_ms.pop(0)
        self.feed(LogSilent(self.log_questions.pop(0)[0], "no answer"))

    def read_back(self) -> None:
        ask = self.read_backs.pop(0)
        answer = self.logs[ask.tp].read_back(ask)
        assert answer is not None, "the fence was refused"
        self.feed(answer)

    def settle_all(self) -> None:
        """The world heals: everything is answered, and leases are to be had."""
        for _ in range(1_000):
            if not self.pipeline.accumulator.unsettled_batches:
                return
            if self.requests:
                self.answer()
            elif self.described:
                self.tell()
            elif self.log_questions:
                self.describe()
            elif self.read_backs:
                self.read_back()
            elif self.lease_questions:
                self.lease()
            else:
                deadline_ms = self.pipeline.next_deadline_ms()
                assert deadline_ms is not None, "nothing is under way and nothing is due"
                self.at(max(deadline_ms, self.now_ms + 1))
        raise AssertionError("it never ends")

    def ids(self, tp: TopicPartition = TP) -> list[ProducerGrant]:
        return [grant for grant, _ in self.logs[tp].rows]

    def values(self, tp: TopicPartition = TP) -> list[str]:
        return [value for _, value in self.logs[tp].rows]

    def assert_all_stored_once_in_order(self) -> None:
        assert all(isinstance(fate, Stored) for fate in self.fates.values())
        for tp, values in self.appended.items():
            assert self.values(tp) == values


def begun() -> tuple[World, ProducerGrant]:
    """One lease, of which the log has taken a batch."""
    world = World()
    world.append("begun")
    grant = world.lease()
    world.answer()
    return world, grant


def test_who_has_nothing_to_send_asks_for_no_lease() -> None:
    world, _ = begun()
    world.at(world.now_ms + 10 * LENGTH_MS)
    assert not world.lease_questions
    world.append("again")
    assert len(world.lease_questions) == 1
    assert not world.requests


def test_a_life_is_counted_from_before_it_was_asked_for() -> None:
    world = World()
    world.append("a")
    asked_ms = world.now_ms
    world.lease(spent_ms=300)
    assert world.pipeline.accumulator.of(TP).hold.ends_ms == asked_ms + LENGTH_MS


def test_a_lease_that_came_too_late_is_not_used() -> None:
    world = World()
    world.append("a")
    world.lease(spent_ms=LENGTH_MS)
    assert not world.requests
    assert not world.lease_questions, "in a busy loop"
    world.settle_all()
    world.assert_all_stored_once_in_order()


def test_it_leases_anew_at_half_of_the_length() -> None:
    world, first = begun()
    begun_ms = world.now_ms
    world.append("a")
    world.at(begun_ms + HALF_MS - 1)
    assert not world.lease_questions
    assert world.pipeline.next_deadline_ms() == begun_ms + HALF_MS
    world.at(begun_ms + HALF_MS)
    assert len(world.lease_questions) == 1
    world.at(begun_ms + HALF_MS + 50)
    assert len(world.lease_questions) == 1
    assert [sent[TP].grant for _, sent in world.requests] == [first]


def test_a_partition_moves_over_when_all_its_batches_under_the_old_lease_are_settled() -> None:
    world, old = begun()
    world.append("a", "b")
    world.at(world.now_ms + HALF_MS)
    new = world.lease()
    world.append("c")
    assert [sent[TP].grant for _, sent in world.requests] == [old, old]
    world.answer()
    assert [sent[TP].grant for _, sent in world.requests] == [old]
    world.answer()
    assert [sent[TP].grant for _, sent in world.requests] == [new]
    world.settle_all()
    world.assert_all_stored_once_in_order()
    assert world.ids() == [old, old, old, new]


def test_each_partition_moves_over_by_itself() -> None:
    world, old = begun()
    world.append("a")
    world.at(world.now_ms + HALF_MS)
    new = world.lease()
    world.append("b", tp=OTHER)
    assert [(tp, one.grant) for _, sent in world.requests for tp, one in sent.items()] == [
        (TP, old),
        (OTHER, new),
    ]


def test_a_resend_across_the_change_keeps_its_id_and_those_behind_wait() -> None:
    world, old = begun()
    world.append("a")
    world.at(world.now_ms + HALF_MS)
    new = world.lease()
    world.append("b")
    world.lose(arrives=True)
    world.at(world.now_ms + 100)
    assert [sent[TP].grant for _, sent in world.requests] == [old]
    world.settle_all()
    world.assert_all_stored_once_in_order()
    assert world.ids() == [old, old, new]


def test_over_by_our_own_clock_nothing_is_sent_again_and_the_log_is_asked() -> None:
    world, old = begun()
    world.ends_ms[old.producer_id] += 60_000  # a server that was started again meanwhile
    (batch,) = world.append("a")
    world.at(world.now_ms + LENGTH_MS)
    world.lose(arrives=True)
    world.at(world.now_ms + 100)
    assert not world.requests
    assert world.log_questions == [(TP, old)]
    world.describe()
    assert isinstance(world.fates[batch], Stored)


def test_one_answer_of_the_log_speaks_for_all_that_it_has() -> None:
    """Those behind were asked about again, and in doubt if that met silence (seeds 7465 and 7978)."""
    world, old = begun()
    world.ends_ms[old.producer_id] += 60_000
    batches = world.append("a", "b", "c")
    world.at(world.now_ms + LENGTH_MS)
    for _ in batches:
        world.lose(arrives=True)
    world.at(world.now_ms + 100)
    world.describe()
    assert all(isinstance(world.fates[batch], Stored) for batch in batches)
    assert not world.log_questions


def test_what_a_late_answer_of_the_log_has_is_stored() -> None:
    """It was on its way when the time of the batch in front was over, and the id was shut out for those behind."""
    world = World(replace(SETTINGS, delivery_timeout_ms=LENGTH_MS + 200))
    world.append("begun")
    old = world.lease()
    world.answer()
    world.ends_ms[old.producer_id] += 60_000
    (front,) = world.append("a")
    world.at(world.now_ms + 300)
    (behind,) = world.append("b")
    world.at(world.now_ms + LENGTH_MS - 300)
    world.lose(arrives=True)
    world.lose(arrives=True)
    world.at(world.now_ms + 100)
    world.look()
    world.at(world.now_ms + 100)
    assert isinstance(world.fates[front], InDoubt)
    assert [ask.grant for ask in world.read_backs] == [old]
    world.tell()
    assert isinstance(world.fates[behind], Stored)


def test_the_last_word_of_a_log_is_heard_when_the_batch_that_it_was_asked_about_is_given_up() -> None:
    """Those behind asked again, and were in doubt if that met silence (seed 1661)."""
    world = World(replace(SETTINGS, delivery_timeout_ms=LENGTH_MS + 200))
    world.append("begun")
    world.lease()
    world.answer()
    (front,) = world.append("a")
    world.at(world.now_ms + 300)
    (behind,) = world.append("b")
    world.at(world.now_ms + LENGTH_MS - 300)
    world.lose(arrives=False)
    world.at(world.now_ms + 190)
    world.lose(arrives=False)  # so it does not ask at once
    world.describe()
    world.at(world.now_ms + 10)
    assert isinstance(world.fates[front], InDoubt)
    world.read_back()
    world.at(world.now_ms + 50)
    assert not world.read_backs
    world.lease()
    world.answer()
    assert isinstance(world.fates[behind], Stored)


def test_what_the_server_says_of_a_life_is_the_better_reckoning() -> None:
    world, old = begun()
    world.ends_ms[old.producer_id] += 60_000
    world.append("a")
    world.at(world.now_ms + LENGTH_MS)
    world.lose(arrives=False)
    world.at(world.now_ms + 100)
    world.describe()
    assert [sent[TP].grant for _, sent in world.requests] == [old]
    world.judge(*world.late_copies.pop())
    world.settle_all()
    world.assert_all_stored_once_in_order()


def forgotten(*, arrived: bool) -> tuple[World, ProducerBatch]:
    """A batch without an answer, whose lease is over for everybody."""
    world, _ = begun()
    (batch,) = world.append("a")
    world.at(world.now_ms + LENGTH_MS - 1)
    world.lose(arrives=arrived)
    world.at(world.now_ms + 10 * LENGTH_MS)
    world.describe()
    assert not world.requests
    begins = [ask.behind and ask.behind.end_offset for ask in world.read_backs]
    assert begins == [1], "from behind what is surely stored"
    return world, batch


def test_a_batch_of_a_forgotten_lease_is_stored_if_the_log_has_it() -> None:
    world, batch = forgotten(arrived=True)
    world.read_back()
    assert isinstance(world.fates[batch], Stored)
    world.assert_all_stored_once_in_order()


def test_a_batch_of_a_forgotten_lease_is_stored_if_one_behind_it_was_acknowledged() -> None:
    """So the log has to be read from in front of that one (found by seed 3780 of the simulator)."""
    world, _ = begun()
    batch, behind = world.append("a", "b")
    world.lose(arrives=True)
    world.answer()
    assert isinstance(world.fates[behind], Stored)
    world.at(world.now_ms + 10 * LENGTH_MS)
    world.describe()
    world.read_back()
    assert isinstance(world.fates[batch], Stored)
    world.assert_all_stored_once_in_order()


def test_a_batch_of_a_forgotten_lease_goes_anew_if_the_log_has_it_not() -> None:
    world, _ = forgotten(arrived=False)
    world.read_back()
    world.settle_all()
    new = world.ids()[-1]
    assert world.judge(*world.late_copies.pop()).code is ErrorCode.UNKNOWN_PRODUCER_ID
    world.assert_all_stored_once_in_order()
    assert new.producer_id in world.ends_ms


def test_the_log_is_read_again_if_that_failed_and_our_own_fence_is_no_other_copy() -> None:
    world, batch = forgotten(arrived=True)
    grant = world.read_backs[0].grant
    world.logs[TP].append(encode_abort_marker(grant.producer_id, grant.producer_epoch + 1, 0, 0))
    world.read_backs.pop()
    world.feed(LogSilent(TP, "no answer"))
    world.at(world.now_ms + 100)
    assert not world.log_questions
    world.read_back()
    assert isinstance(world.fates[batch], Stored)
    assert world.pipeline.fenced is None


def test_a_batch_is_found_in_a_log_that_was_made_anew_and_is_as_long_again() -> None:
    """It lies in front of where the last one of ours ended in the old log."""
    world, _ = begun()
    world.append("a", "b")
    world.settle_all()
    world.at(world.now_ms + 10 * LENGTH_MS)
    world.logs[TP].make_anew()
    (batch,) = world.append("c")
    world.lease()
    world.lose(arrives=True)
    world.logs[TP].others_write(20)
    world.at(world.now_ms + 10 * LENGTH_MS)
    world.describe()
    world.read_back()
    assert isinstance(world.fates[batch], Stored)
    world.settle_all()
    assert [value.strip(".") for value in world.values()] == ["c"]


def test_in_doubt_only_if_no_leader_answers() -> None:
    world, batch = forgotten(arrived=True)
    world.feed(LogSilent(TP, "no answer"))
    world.at(world.now_ms + DELIVERY_MS)
    assert isinstance(world.fates[batch], InDoubt)


def test_in_doubt_if_the_log_was_trimmed_behind_what_is_stored() -> None:
    world, batch = forgotten(arrived=True)
    (behind,) = world.append("b")
    grant = world.read_backs.pop().grant
    world.feed(LogAnswered(TP, grant.producer_epoch, None, grant, is_final=True, is_cut=True))
    assert isinstance(world.fates[batch], InDoubt)
    world.settle_all()
    assert isinstance(world.fates[behind], Stored)


def test_what_is_left_of_a_trimmed_log_may_suffice() -> None:
    world, batch = forgotten(arrived=True)
    grant = world.read_backs.pop().grant
    world.feed(LogAnswered(TP, grant.producer_epoch, 1, grant, is_final=True, is_cut=True))
    assert isinstance(world.fates[batch], Stored)


def test_in_doubt_if_the_log_was_compacted_behind_what_it_has() -> None:
    world, batch = forgotten(arrived=True)
    (behind,) = world.append("b")
    grant = world.read_backs.pop().grant
    world.feed(LogAnswered(TP, grant.producer_epoch, 0, grant, is_final=True, is_compacted=True))
    assert isinstance(world.fates[batch], InDoubt)
    world.settle_all()
    assert isinstance(world.fates[behind], Stored)


def test_what_is_left_of_a_compacted_log_may_suffice() -> None:
    world, batch = forgotten(arrived=True)
    grant = world.read_backs.pop().grant
    world.feed(LogAnswered(TP, grant.producer_epoch, 1, grant, is_final=True, is_compacted=True))
    assert isinstance(world.fates[batch], Stored)


def test_unknown_on_a_leased_id_sends_anew_what_the_log_has_not() -> None:
    world, old = begun()
    world.end_lease(old.producer_id)  # an older data folder came back
    world.append("a", "b")
    world.settle_all()
    world.assert_all_stored_once_in_order()
    assert world.ids()[0] == old
    assert old not in world.ids()[1:]


@pytest.mark.parametrize("copied", [False, True])
def test_what_was_refused_for_now_goes_anew_only_if_no_copy_of_it_came(copied: bool) -> None:
    world, old = begun()
    world.append("a")
    world.copy()
    world.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if copied:  # there is room by now
        world.judge(*world.late_copies[0])
    world.at(10_000 + LENGTH_MS)
    assert world.log_questions == [(TP, old)]
    world.settle_all()
    world.judge(*world.late_copies[0])
    world.assert_all_stored_once_in_order()
    assert (world.ids()[1] == old) is copied


def test_a_batch_whose_copy_came_before_it_is_in_doubt_if_the_log_is_silent() -> None:
    """The copy is stored, the lease is over, and the batch itself is refused for that."""
    world, old = begun()
    (batch,) = world.append("a")
    world.copy()
    world.judge(*world.late_copies[0])
    world.end_lease(old.producer_id)
    world.answer()
    world.be_silent()
    world.at(world.now_ms + DELIVERY_MS)
    assert isinstance(world.fates[batch], InDoubt)


def test_unknown_on_a_leased_id_says_nothing_of_the_attempts_before() -> None:
    world, old = begun()
    world.append("a")
    world.lose(arrives=True)
    world.end_lease(old.producer_id)
    world.at(world.now_ms + 100)
    world.answer()
    assert world.log_questions == [(TP, old)]
    world.settle_all()
    world.assert_all_stored_once_in_order()
    assert world.ids() == [old, old]


def test_refused_for_good_after_silence_it_is_stored_if_the_log_has_it() -> None:
    world, _ = begun()
    (batch,) = world.append("a")
    world.lose(arrives=True)
    world.at(world.now_ms + 100)
    world.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert batch not in world.fates
    world.read_back()
    assert isinstance(world.fates[batch], Stored)


def test_refused_for_good_after_silence_it_is_not_stored_if_the_log_has_it_not() -> None:
    world, _ = begun()
    (batch,) = world.append("a")
    world.lose(arrives=False)
    world.at(world.now_ms + 100)
    world.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    world.read_back()
    world.at(world.now_ms + 100)
    world.lease()
    world.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert isinstance(world.fates[batch], Refused)
    world.judge(*world.late_copies.pop())
    assert len(world.logs[TP].rows) == 1


def test_who_waits_behind_a_batch_whose_time_is_over_is_not_in_doubt_for_that() -> None:
    world = World(replace(SETTINGS, delivery_timeout_ms=500))
    (front,) = world.append("a")
    world.lease()
    world.answer()
    (front,) = world.append("b")
    world.at(world.now_ms + 300)
    (behind,) = world.append("c")
    world.lose(arrives=False)
    world.lose(arrives=False)
    world.at(world.now_ms + 250)
    assert isinstance(world.fates[front], InDoubt)
    world.settle_all()
    assert isinstance(world.fates[behind], Stored)
    for tp, sent in world.late_copies:
        assert world.judge(tp, sent).code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_who_waits_behind_a_gap_that_cannot_be_closed_is_not_in_doubt_for_that() -> None:
    world, _ = begun()
    front, *behind = world.append("a", "b", "c")
    world.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    world.lose(arrives=False)
    world.answer()
    world.settle_all()
    assert isinstance(world.fates[front], Refused)
    assert all(isinstance(world.fates[batch], Stored) for batch in behind)
    assert [value.strip(".") for value in world.values()] == ["begun", "b", "c"]


def test_a_log_that_lost_its_tail_leaves_nothing_in_doubt() -> None:
    world, _ = begun()
    first, second = world.append("a", "b")
    world.answer()
    world.lose(arrives=True)
    world.logs[TP].cut(1)
    world.settle_all()
    assert isinstance(world.fates[first], Stored), "it was, when that was said"
    assert isinstance(world.fates[second], Stored)
    assert [value.strip(".") for value in world.values()] == ["begun", "b"]


def test_what_the_log_knew_before_the_id_was_shut_out_is_of_no_use_after() -> None:
    world = World(replace(SETTINGS, delivery_timeout_ms=700))
    world.append("a")
    old = world.lease()
    world.answer()
    world.append("b")
    world.at(world.now_ms + 300)
    (behind,) = world.append("c")
    world.lose(arrives=False)
    world.at(world.now_ms + 100)
    world.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    world.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    world.at(world.now_ms + 350)
    world.feed(LogAnswered(TP, old.producer_epoch, 0, old, 60_000, world.now_ms))
    world.settle_all()
    assert isinstance(world.fates[behind], Stored)
    assert world.pipeline.fenced is None


def test_refused_a_new_lease_it_goes_on_under_the_old_one_and_asks_again_less_often() -> None:
    world, old = begun()
    begun_ms = world.now_ms
    world.append("a")
    world.at(begun_ms + HALF_MS)
    pauses = []
    for _ in range(3):
        world.lease_questions.clear()
        world.feed(LeaseRefused("no room"))
        refused_ms = world.now_ms
        assert not world.lease_questions
        while not world.lease_questions:
            world.at(world.now_ms + 10)
        pauses.append(world.now_ms - refused_ms)
    assert pauses == sorted(set(pauses))
    world.append("b")
    assert [sent[TP].grant for _, sent in world.requests] == [old, old]


def test_without_a_lease_rows_wait_for_their_delivery_timeout() -> None:
    world = World()
    (batch,) = world.append("a")
    world.feed(LeaseRefused("no room"))
    world.at(world.now_ms + DELIVERY_MS - 1)
    assert batch not in world.fates
    world.at(world.now_ms + 1)
    fate = world.fates[batch]
    assert isinstance(fate, Refused)
    assert "no room" in fate.why


def test_where_there_are_no_leases_nothing_is_sent_and_every_row_is_told_why() -> None:
    world = World()
    batches = world.append("a")
    batches += world.append("b", tp=OTHER)
    world.lease_questions.clear()
    world.feed(NoLeases("this is no semel"))
    batches += world.append("c")
    assert not world.requests
    assert not world.lease_questions
    assert [world.fates[batch] for batch in batches] == [
        Refused(ErrorCode.UNSUPPORTED_VERSION, "this is no semel")
    ] * 3


def test_what_no_lease_can_be_for_is_told_once_no_older_one_serves() -> None:
    world = World()
    world.append("a")
    world.lease()
    refused = NoLeases("too many partitions", ErrorCode.INVALID_REQUEST)
    world.at(world.now_ms + HALF_MS)
    world.lease_questions.clear()
    world.feed(refused)
    world.answer()
    (in_doubt,) = world.append("b")
    assert len(world.requests) == 1, "the older lease serves"
    world.lose(arrives=True)
    world.at(world.now_ms + LENGTH_MS)
    (behind,) = world.append("c")
    assert world.lease_questions
    world.lease_questions.clear()
    world.feed(refused)
    world.describe()
    world.read_back()
    assert isinstance(world.fates[in_doubt], Stored)
    assert world.fates[behind] == Refused(ErrorCode.INVALID_REQUEST, "too many partitions")
    assert not world.lease_questions


REFUSALS = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD)


def moves_of(
    world: World, number: list[int], *, refuses: bool = False, copies: bool = False
) -> dict[str, Callable[[int], None]]:
    """What may happen next, by name; each takes a number to choose by."""

    def append(at: int) -> None:
        row_count = 1 + at // 2 % 4
        world.append(*(f"{number[0] + row}" for row in range(row_count)), tp=(TP, OTHER)[at % 2])
        number[0] += row_count

    found: dict[str, Callable[[int], None]] = {
        "append": append,
        "others": lambda at: world.logs[(TP, OTHER)[at % 2]].others_write(1 + at // 2),
        "time": lambda at: world.at(world.now_ms + (1, 20, 200, HALF_MS, 2 * LENGTH_MS)[at % 5]),
    }
    if refuses:
        found["trim"] = lambda at: world.logs[(TP, OTHER)[at % 2]].trim(at // 2)
    if any(send.request_id not in world.judged for send, _ in world.requests):
        found["arrive"] = lambda at: world.arrive()
    if world.requests:
        found["answer"] = lambda at: world.answer(at % len(world.requests))
        if refuses and not world.judged:
            found["refuse"] = lambda at: world.refuse(REFUSALS[at % len(REFUSALS)], at % len(world.requests))
        found["lose"] = lambda at: world.lose(at // 2 % len(world.requests), arrives=at % 2 == 0)
        if copies:
            found["copy"] = lambda at: world.copy(at % len(world.requests))
            found["not now"] = lambda at: world.refuse_for_now(at % len(world.requests))
    if world.late_copies:
        found["late copy"] = lambda at: void(world.judge(*world.late_copies.pop(at % len(world.late_copies))))
    if world.lease_questions:
        found["lease"] = lambda at: void(
            world.lease(spent_ms=(0, 30)[at % 2], server_spares_ms=(0, 3_000)[at // 2 % 2])
        )
        found["no lease"] = lambda at: void(world.lease_questions.pop(), world.feed(LeaseRefused("no room")))
    if world.log_questions:
        found["describe"] = lambda at: world.describe()
        found["look"] = lambda at: world.look()
        found["silence"] = lambda at: world.be_silent()
    if world.described:
        found["tell"] = lambda at: world.tell()
    if world.read_backs:
        found["read back"] = lambda at: world.read_back()
        found["unread"] = lambda at: world.feed(LogSilent(world.read_backs.pop(0).tp, "no answer"))
    return found


def void(*_: object) -> None:
    """Only what came of the arguments matters."""


@pytest.mark.parametrize("copies", [False, True], ids=["", "copied"])
@settings(max_examples=settings().max_examples * 4)
@given(choices=st.lists(st.tuples(st.integers(0, 15), st.integers(0, 9)), min_size=10, max_size=120))
def test_any_interleaving_stores_each_row_once_in_order(choices: list[tuple[int, int]], copies: bool) -> None:
    """Copied: requests come twice, and are refused for now: the second may be stored though the first is not."""
    world, number = (
        World(PipelineSettings(batch_bytes=300, linger_ms=0, delivery_timeout_ms=10**9, lease=True)),
        [0],
    )
    for what, at in choices:
        moves = sorted(moves_of(world, number, copies=copies).items())
        moves[what % len(moves)][1](at)
    world.settle_all()
    for tp, sent in world.late_copies:
        world.judge(tp, sent)
    world.assert_all_stored_once_in_order()


@settings(max_examples=settings().max_examples * 3)
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 9)), min_size=10, max_size=120))
def test_in_doubt_only_in_silence_and_every_other_word_is_true(choices: list[tuple[int, int]]) -> None:
    """With refusals for good, trimmed logs, and times that are over.

    Whoever is in doubt had no answer in all of its time, or the log begins later by now; and no log had said that it
    is stored.
    """
    world, number = World(replace(SETTINGS, batch_bytes=300, delivery_timeout_ms=1_500)), [0]
    for what, at in choices:
        moves = sorted(moves_of(world, number, refuses=True).items())
        moves[what % len(moves)][1](at)
    world.settle_all()
    for tp, sent in world.late_copies:
        world.judge(tp, sent)
    kinds: dict[str, type[PartFate]] = {}
    for batch, fate in world.fates.items():
        if isinstance(fate, InDoubt):
            was_trimmed = world.logs[batch.tp].start_offset > 0
            assert world.settled_ms[batch] >= batch.created_ms + 1_500 or was_trimmed, fate
            assert batch not in world.said_to_be_stored, fate
        values = world.values_of[batch.whole or batch]
        kinds |= dict.fromkeys(values[batch.first_row : batch.first_row + batch.record_count], type(fate))
    for tp in world.logs:
        stored = world.values(tp)
        assert len(set(stored)) == len(stored)
        for value in world.appended[tp]:
            if kinds[value] is not InDoubt:
                assert (value in stored) == (kinds[value] is Stored)
        told = [value for value in world.appended[tp] if kinds[value] is Stored]
        assert [value for value in stored if kinds[value] is Stored] == told
