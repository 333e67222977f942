"""Leases by example, and against a model that keeps every lease's own clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.decision import Decision, StateRecord
from semel.core.identity import Refused
from semel.core.lease import LeaseRequest, Leases, Response
from semel.errors import ErrorCode
from semel.types import LEASED_IDS_FROM, PRODUCER_EPOCH_MAX, Lease, ProducerGrant, TopicPartition

LENGTH_MS = 10_000
ROOM_MAX = 100
TPS = (TopicPartition("a", 0), TopicPartition("b", 7))


class Server:
    """A core with its log, as one process after another has it."""

    def __init__(self, log: list[StateRecord] | None = None, now_ms: int = 0, next_id: int = 0) -> None:
        self.log = log or []
        self.next_id = next_id
        self.core = Leases()
        for record in self.log:
            assert self.core.apply(record)
        self.core.see(now_ms)

    def run(self, decision: Decision[Response] | Decision[int], now_ms: int) -> Response | int:
        for record in decision.records:
            self.log.append(record)
            assert self.core.apply(record)
        self.core.see(now_ms)
        return decision.response

    def ask(
        self,
        now_ms: int = 0,
        before: tuple[int, int] = (-1, -1),
        *,
        epoch: int = 5,
        free_room: int = 100,
        partitions: tuple[TopicPartition, ...] = TPS,
        written: frozenset[TopicPartition] = frozenset(),
    ) -> Response:
        self.next_id += 1
        fresh_id = LEASED_IDS_FROM + self.next_id
        request = LeaseRequest(partitions, fresh_id, epoch, free_room, ROOM_MAX, LENGTH_MS, *before, written)
        response = self.run(self.core.decide(request, now_ms), now_ms)
        assert isinstance(response, Lease | Refused)
        return response

    def lease(self, now_ms: int = 0, before: tuple[int, int] = (-1, -1), **more: Any) -> Lease:
        response = self.ask(now_ms, before, **more)
        assert isinstance(response, Lease), response
        return response

    def expire(self, now_ms: int) -> int:
        expired_below = self.run(self.core.decide_expiry(now_ms), now_ms)
        assert isinstance(expired_below, int)
        return expired_below

    def restart(self, now_ms: int) -> Server:
        return Server(self.log, now_ms, self.next_id)

    def compacted(self, now_ms: int) -> Server:
        return Server(list(self.core.live_records()), now_ms, self.next_id)


def code(response: Response) -> ErrorCode:
    assert isinstance(response, Refused), response
    return response.error_code


def test_a_fresh_lease() -> None:
    lease = Server().lease(epoch=9)
    assert lease.grant == ProducerGrant(LEASED_IDS_FROM + 1, 9)
    assert (lease.length_ms, lease.remaining_ms) == (LENGTH_MS, LENGTH_MS)
    assert lease.first_sequences == {TPS[0]: 0, TPS[1]: 0}


def test_leases_end_in_the_order_of_their_issue_and_stay_over() -> None:
    server = Server()
    first, second = server.lease(0), server.lease(4_000)
    assert server.expire(9_999) == LEASED_IDS_FROM
    assert server.expire(10_000) == first.producer_id + 1
    assert len(server.core) == 1
    for later in (server, server.restart(10_000), server.compacted(10_000)):
        assert code(later.ask(10_000, (first.producer_id, 5))) is ErrorCode.UNKNOWN_PRODUCER_ID
        assert later.core.expired_below == first.producer_id + 1
        assert later.core.granted_below == second.producer_id + 1


def test_a_life_is_counted_from_when_this_server_saw_it() -> None:
    server = Server()
    lease = server.lease(0)
    after = server.restart(1_000_000)
    assert after.expire(1_009_999) == LEASED_IDS_FROM
    assert after.core.remaining_ms(lease.producer_id, 1_002_000) == 8_000
    assert after.expire(1_010_000) == lease.producer_id + 1


def test_resuming_raises_the_epoch_and_gives_the_rest_of_the_life_only() -> None:
    server = Server()
    lease = server.lease(0)
    resumed = server.lease(3_000, (lease.producer_id, 5))
    assert resumed.grant == ProducerGrant(lease.producer_id, 6)
    assert (resumed.length_ms, resumed.remaining_ms) == (LENGTH_MS, 7_000)
    assert resumed.first_sequences == {TPS[0]: 0, TPS[1]: 0}
    for later in (server, server.restart(3_000), server.compacted(3_000)):
        assert code(later.ask(3_000, (lease.producer_id, 5))) is ErrorCode.PRODUCER_FENCED
        assert code(later.ask(3_000, (lease.producer_id, 7))) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert code(later.ask(3_000, (lease.producer_id + 99, 0))) is ErrorCode.UNKNOWN_PRODUCER_ID
    assert server.expire(10_000) == lease.producer_id + 1, "no renewal"


def test_what_is_over_by_the_clock_is_not_resumed_though_it_is_not_logged_yet() -> None:
    server = Server()
    lease = server.lease(0)
    assert code(server.ask(10_000, (lease.producer_id, 5))) is ErrorCode.UNKNOWN_PRODUCER_ID


def test_without_room_no_lease_begins_and_the_live_ones_go_on() -> None:
    server = Server()
    lease = server.lease(0, free_room=2)
    assert code(server.ask(0, free_room=1)) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED.retriable
    assert server.lease(0, (lease.producer_id, 5), free_room=0).producer_epoch == 6


FURTHER = TopicPartition("c", 0)


def test_a_lease_that_names_more_when_it_is_resumed_is_given_what_it_lacks() -> None:
    server = Server()
    lease = server.lease(0, free_room=2)
    named = (*TPS, FURTHER)
    assert code(server.ask(0, (lease.producer_id, 5), partitions=named, free_room=0)) is (
        ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )
    resumed = server.lease(0, (lease.producer_id, 5), partitions=named, free_room=1)
    assert list(resumed.first_sequences) == list(named)
    for later in (server, server.restart(0), server.compacted(0)):
        assert later.core.room_of(lease.producer_id) == 3


def test_room_that_is_used_where_a_lease_has_written_is_not_room_for_what_it_names_now() -> None:
    server = Server()
    lease = server.lease(0, partitions=(FURTHER,))
    written = frozenset({FURTHER, TopicPartition("d", 0)})  # one more than it had room for
    before = (lease.producer_id, 5)
    refused = server.ask(0, before, partitions=TPS, written=written, free_room=1)
    assert code(refused) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    server.lease(0, before, partitions=TPS, written=written, free_room=2)
    assert server.core.room_of(lease.producer_id) == 4


def test_what_no_room_could_ever_be_kept_for_is_refused_for_good() -> None:
    server = Server()
    too_many = tuple(TopicPartition("t", number) for number in range(ROOM_MAX + 1))
    fresh = server.ask(0, partitions=too_many)
    lease = server.lease(0)
    resumed = server.ask(0, (lease.producer_id, 5), partitions=too_many)
    for refused in (fresh, resumed):
        assert code(refused) is ErrorCode.INVALID_REQUEST
        assert not ErrorCode.INVALID_REQUEST.retriable
    assert server.lease(0, (lease.producer_id, 5), partitions=too_many[1:]).producer_epoch == 6


def test_even_a_lease_for_nothing_takes_room() -> None:
    assert LeaseRequest((), LEASED_IDS_FROM, 0, 0, ROOM_MAX, LENGTH_MS).room == 1


def test_used_up_epochs_end_in_a_fresh_lease() -> None:
    server = Server()
    last = PRODUCER_EPOCH_MAX - 1
    old = server.lease(0, epoch=last)
    fresh = server.lease(4_000, (old.producer_id, last), epoch=3)
    assert fresh.producer_id > old.producer_id
    assert (fresh.producer_epoch, fresh.remaining_ms) == (3, LENGTH_MS)
    assert code(server.ask(4_000, (old.producer_id, last))) is ErrorCode.PRODUCER_FENCED


def test_without_a_fresh_id_no_lease_begins() -> None:
    server = Server()
    lease = server.lease(epoch=PRODUCER_EPOCH_MAX - 1)
    for before in ((-1, -1), (lease.producer_id, lease.producer_epoch)):
        refused = server.core.decide(LeaseRequest(TPS, -1, 5, 100, ROOM_MAX, LENGTH_MS, *before), 0)
        assert isinstance(refused.response, Refused)
        assert refused.response.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not refused.records


def test_another_length_needs_that_no_lease_lives() -> None:
    server = Server()
    server.lease(0)
    server.expire(10_000)
    request = LeaseRequest(TPS, LEASED_IDS_FROM + 50, 0, 100, ROOM_MAX, 2 * LENGTH_MS)
    granted = server.run(server.core.decide(request, 10_000), 10_000)
    assert isinstance(granted, Lease)
    assert granted.length_ms == server.core.length_ms == 2 * LENGTH_MS
    assert server.expire(20_000) < granted.producer_id < server.expire(30_000)


def test_many_leases_are_few_marks_and_few_bytes() -> None:
    server = Server()
    for now_ms in range(3_000):
        server.lease(now_ms)
    assert len(server.core._marks) <= 3_000 / (LENGTH_MS / 1000) + 2
    after = server.compacted(3_000)
    assert list(after.core) == list(server.core)
    assert list(after.core.live_records()) == list(server.core.live_records())
    assert after.expire(13_000) == server.expire(13_000) == LEASED_IDS_FROM + 3_001
    assert not len(after.core)


def test_other_states_keep_their_records() -> None:
    assert not Leases().apply(StateRecord(b"producer-ids", b"{}"))


@dataclass
class Model:
    """Every lease with a clock of its own."""

    epochs: dict[int, int] = field(default_factory=dict)
    seen_ms: dict[int, int] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lease", "resume", "wait", "expire", "restart", "compact"]),
        st.integers(0, 30),
        st.integers(0, 6_000),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_life_is_shorter_or_told_twice_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    server, model, now_ms = Server(), Model(), 0
    granted: set[ProducerGrant] = set()
    for what, number, wait_ms in steps:
        known = sorted(model.epochs)
        if what == "wait":
            now_ms += wait_ms
        elif what in ("restart", "compact"):
            server = server.restart(now_ms) if what == "restart" else server.compacted(now_ms)
            model.seen_ms = dict.fromkeys(known, now_ms)
        elif what == "expire":
            expired_below = server.expire(now_ms)
            grain_ms = LENGTH_MS // 1000
            for producer_id in known:
                lived_ms = now_ms - model.seen_ms[producer_id]
                if producer_id >= expired_below:
                    assert lived_ms < LENGTH_MS + grain_ms
                    assert producer_id not in model.over
                elif producer_id not in model.over:
                    assert lived_ms >= LENGTH_MS
                    model.over.add(producer_id)
        elif what == "lease" or not known:
            lease = server.lease(now_ms, epoch=wait_ms)
            assert lease.producer_id not in model.epochs
            assert lease.grant not in granted
            granted.add(lease.grant)
            model.epochs[lease.producer_id], model.seen_ms[lease.producer_id] = wait_ms, now_ms
        else:
            producer_id = known[number % len(known)]
            answer = server.ask(now_ms, (producer_id, model.epochs[producer_id]))
            if isinstance(answer, Lease):
                assert producer_id not in model.over
                assert answer.grant not in granted
                granted.add(answer.grant)
                assert 0 < answer.remaining_ms <= LENGTH_MS
                model.epochs[producer_id] += 1
            else:
                assert answer.error_code is ErrorCode.UNKNOWN_PRODUCER_ID
                assert now_ms - model.seen_ms[producer_id] >= LENGTH_MS or producer_id in model.over


@pytest.mark.parametrize("at_ms", [0, 5_000, 9_999])
def test_what_is_said_to_remain_does_remain(at_ms: int) -> None:
    server = Server()
    lease = server.lease(0)
    server.lease(3)  # shares its mark
    remaining_ms = server.core.remaining_ms(lease.producer_id, at_ms)
    assert server.expire(at_ms + remaining_ms - 1) == LEASED_IDS_FROM
