"""A member's decisions: step by step by example, and held to the invariants under any order of what may happen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.consumer.events import (
    Beat,
    Beaten,
    CommitRefused,
    Divided,
    Effects,
    Event,
    HandedOver,
    Handover,
    Join,
    JoinAnswer,
    Joined,
    Leave,
    Polled,
    Refused,
    Subscribed,
    Sync,
    Synced,
    Tick,
    TopicsSeen,
    Unsubscribed,
)
from semel.core.consumer.membership import Membership, MembershipSettings
from semel.core.consumer.places import (
    TABLE,
    Ended,
    Joining,
    LettingGo,
    Outside,
    Place,
    Settling,
    Stable,
    Step,
    Syncing,
    Waiting,
    follow,
)
from semel.core.consumer.subscription import NO_GENERATION
from semel.errors import ErrorCode
from semel.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Bench:
    """A member, its clock, and the newest effects."""

    def __init__(self, **settings: object) -> None:
        self.machine = Membership(MembershipSettings(**settings))  # type: ignore[arg-type]
        self.now_ms = 1_000
        self.effects = Effects()

    def tell(self, event: Event, *, after_ms: int = 0) -> Effects:
        self.now_ms += after_ms
        self.effects = self.machine.handle(event, self.now_ms)
        return self.effects

    def hand_over(self) -> Handover:
        handover = self.machine.handover
        assert handover is not None
        self.tell(HandedOver(handover))
        return handover

    @property
    def join(self) -> Join:
        assert self.effects.join is not None
        return self.effects.join

    def admit(self, generation_id: int, *, is_leader: bool = False) -> Sync:
        answer = JoinAnswer(generation_id, "me", "cooperative-sticky", is_leader)
        sync = self.tell(Joined(self.join.attempt, answer)).sync
        assert sync is not None
        if is_leader:
            self.tell(Divided(sync.attempt, {"a": 2}))
        return sync

    def become_stable(self, generation_id: int, *tps: TopicPartition, is_leader: bool = False) -> Bench:
        """Through join and sync, from a poll that joins."""
        sync = self.admit(generation_id, is_leader=is_leader)
        self.tell(Synced(sync.attempt, frozenset(tps)))
        self.tell(Polled())
        self.hand_over()
        return self


def member(*tps: TopicPartition, is_leader: bool = False, **settings: object) -> Bench:
    """A stable member of generation 1 that has ``tps``."""
    bench = Bench(**settings)
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    return bench.become_stable(1, *tps, is_leader=is_leader)


def test_a_first_join_waits_for_a_poll_and_takes_on_in_one() -> None:
    bench = Bench()
    assert bench.tell(Subscribed(frozenset({"a"}))) == Effects()
    assert bench.tell(Polled()).join == Join(1, "", frozenset({"a"}), frozenset(), NO_GENERATION, "")
    required = Refused(1, ErrorCode.MEMBER_ID_REQUIRED, "", "me")
    assert bench.tell(required).join == Join(2, "me", frozenset({"a"}), frozenset(), NO_GENERATION, "")
    sync = bench.admit(1)
    bench.tell(Synced(sync.attempt, frozenset({A0, A1})))
    assert bench.machine.owned == frozenset()
    assert bench.hand_over() == Handover(added=frozenset({A0, A1}))
    assert bench.machine.place == Stable()
    assert bench.machine.owned == {A0, A1}


def test_let_go_first_is_everything_where_the_strategy_is_eager() -> None:
    bench = member(A0, A1, is_cooperative=False)
    bench.tell(Beaten_of(bench, ErrorCode.REBALANCE_IN_PROGRESS))
    assert isinstance(bench.machine.place, Waiting)
    assert bench.tell(Polled()).join is None
    assert bench.machine.handover == Handover(revoked=frozenset({A0, A1}))
    bench.hand_over()
    assert bench.join.owned == frozenset()


def Beaten_of(bench: Bench, code: ErrorCode | None) -> Beaten:
    """A heartbeat that becomes due now, and its answer."""
    beat = bench.tell(Tick(), after_ms=3_000).beat
    assert beat is not None
    return Beaten(beat.generation_id, code)


def test_let_go_first_is_nothing_where_the_strategy_is_cooperative() -> None:
    bench = member(A0, A1)
    bench.tell(Beaten_of(bench, ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.tell(Polled()).join is not None
    assert bench.join.owned == {A0, A1}
    sync = bench.admit(2)
    bench.tell(Synced(sync.attempt, frozenset({A0})))
    assert bench.hand_over() == Handover(revoked=frozenset({A1}))
    assert isinstance(bench.machine.place, Waiting), "what was let go of is given in a join of its own"
    bench.tell(Polled())
    assert (bench.join.owned, bench.join.generation_id) == ({A0}, 2)


def test_what_is_subscribed_to_no_more_is_let_go_of_before_the_join() -> None:
    bench = member(A0)
    bench.tell(Subscribed(frozenset({"b"})))
    bench.tell(Polled())
    assert bench.hand_over() == Handover(revoked=frozenset({A0}))
    assert (bench.join.topics, bench.join.owned) == ({"b"}, frozenset())


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_lost_is_told(code: ErrorCode, member_id: str) -> None:
    for bench in (member(A0), member(A0, is_cooperative=False)):
        bench.tell(Beaten_of(bench, code))
        assert bench.tell(Polled()).join is None
        assert bench.hand_over() == Handover(lost=frozenset({A0}))
        assert bench.join.member_id == member_id


def test_a_refused_commit_says_how_the_member_stands() -> None:
    bench = member(A0)
    bench.tell(CommitRefused(0, ErrorCode.ILLEGAL_GENERATION))
    assert bench.machine.place == Stable(), "of an earlier generation"
    bench.tell(CommitRefused(1, ErrorCode.ILLEGAL_GENERATION))
    bench.tell(Polled())
    assert bench.machine.handover == Handover(lost=frozenset({A0}))


def test_whoever_is_fenced_has_lost_everything_and_joins_no_more() -> None:
    bench = member(A0, group_instance_id="one")
    bench.tell(Beaten_of(bench, ErrorCode.FENCED_INSTANCE_ID))
    assert isinstance(bench.machine.place, Ended)
    assert bench.hand_over() == Handover(lost=frozenset({A0}))
    assert bench.tell(Polled(), after_ms=60_000) == Effects()
    assert bench.machine.handover is None
    bench.tell(Subscribed(frozenset({"a"})))
    assert bench.tell(Polled()).join is not None


def test_a_silent_owner_has_its_member_leave() -> None:
    bench = member(A0, max_poll_interval_ms=10_000)
    for _ in range(3):
        beat = bench.tell(Tick(), after_ms=3_000).beat
        assert beat is not None
        bench.tell(Beaten(beat.generation_id, ErrorCode.NONE))
    left = bench.tell(Tick(), after_ms=1_001)
    assert left.leave == Leave("me", "its owner did not poll for max_poll_interval_ms")
    assert bench.machine.next_deadline_ms() is None, "no heartbeat any more"
    bench.tell(Polled(), after_ms=50_000)
    assert bench.hand_over() == Handover(lost=frozenset({A0}))
    assert bench.join.member_id == ""


def test_a_static_member_does_not_say_that_it_leaves() -> None:
    bench = member(A0, group_instance_id="one")
    assert bench.tell(Unsubscribed("over")) == Effects()
    assert bench.machine.place == Outside()
    dynamic = member(A0)
    assert dynamic.tell(Unsubscribed("over")) == Effects(leave=Leave("me", "over"))


def test_beats_while_member() -> None:
    bench = member(A0)
    assert bench.tell(Tick(), after_ms=2_999).beat is None
    assert bench.tell(Tick(), after_ms=1).beat == Beat("me", 1)
    assert bench.tell(Tick(), after_ms=9_000).beat is None, "one at a time"
    bench.tell(Beaten(1, None))
    assert bench.tell(Tick(), after_ms=100).beat == Beat("me", 1), "soon, after one that was lost"
    bench.tell(Beaten(1, ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.tell(Tick(), after_ms=3_000).beat == Beat("me", 1), "its owner works on"
    bench.tell(Polled())
    bench.tell(Beaten(1, ErrorCode.ILLEGAL_GENERATION))
    assert isinstance(bench.machine.place, Waiting)


def test_no_heartbeat_while_it_joins() -> None:
    bench = member(A0)
    bench.tell(Beaten_of(bench, ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.tell(Polled()).join is not None
    assert bench.tell(Tick(), after_ms=60_000).beat is None


def test_an_attempt_that_fails_is_repeated_without_the_owner() -> None:
    bench = Bench()
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    for code in (None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert bench.tell(Refused(bench.join.attempt, code, "")).join is None
        assert bench.machine.next_deadline_ms() == bench.now_ms + 100
        assert bench.tell(Tick(), after_ms=99).join is None
        assert bench.tell(Tick(), after_ms=1).join is not None


def test_a_sync_that_another_rebalance_overtakes_joins_at_once() -> None:
    bench = Bench()
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    sync = bench.admit(1)
    refused = bench.tell(Refused(sync.attempt, ErrorCode.REBALANCE_IN_PROGRESS, ""))
    assert refused.join is not None
    assert refused.join.member_id == "me"


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.UNKNOWN]
)
def test_what_no_repetition_would_change_ends_it(code: ErrorCode) -> None:
    bench = Bench()
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    bench.tell(Refused(bench.join.attempt, code, "why"))
    assert bench.machine.place == Ended(code, "why")


def test_what_is_heard_of_a_member_that_has_ended_comes_too_late() -> None:
    bench = member(A0)
    bench.tell(CommitRefused(1, ErrorCode.REBALANCE_IN_PROGRESS))
    bench.tell(Polled())
    bench.tell(Refused(bench.join.attempt, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "why"))
    bench.tell(CommitRefused(1, ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.machine.place == Ended(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "why")


def test_a_leader_joins_again_when_topics_grow_and_others_do_not() -> None:
    leader = member(A0, is_leader=True)
    leader.tell(TopicsSeen({"a": 2, "other": 1}))
    assert leader.machine.place == Stable()
    leader.tell(TopicsSeen({"a": 3}))
    assert isinstance(leader.machine.place, Waiting)
    follower = member(A0)
    follower.tell(TopicsSeen({"a": 3}))
    assert follower.machine.place == Stable()


def test_news_that_come_before_it_has_settled_are_not_forgotten() -> None:
    bench = Bench()
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    sync = bench.admit(1)
    bench.tell(Subscribed(frozenset({"a", "b"})))
    bench.tell(Synced(sync.attempt, frozenset({A0})))
    bench.tell(Polled())
    bench.hand_over()
    bench.tell(Polled())
    assert bench.join.topics == {"a", "b"}
    sync = bench.admit(2)
    bench.tell(Synced(sync.attempt, frozenset({A0})))
    bench.tell(Beaten_of(bench, ErrorCode.REBALANCE_IN_PROGRESS))
    bench.hand_over()
    assert isinstance(bench.machine.place, Waiting)


def test_who_is_expelled_amid_a_handover_is_told_what_it_lost_of_it() -> None:
    bench = Bench()
    bench.tell(Subscribed(frozenset({"a"})))
    bench.tell(Polled())
    sync = bench.admit(1)
    bench.tell(Synced(sync.attempt, frozenset({A0})))
    handover = bench.machine.handover
    assert handover == Handover(added=frozenset({A0}))
    bench.tell(Beaten_of(bench, ErrorCode.UNKNOWN_MEMBER_ID))
    bench.tell(HandedOver(handover))
    bench.tell(Polled())
    assert bench.hand_over() == Handover(lost=frozenset({A0}))


# -- any order --------------------------------------------------------------------------------------------------

ANSWERS = st.sampled_from(
    [
        None,
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID),
        *(ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.MEMBER_ID_REQUIRED),
        *(ErrorCode.INVALID_GROUP_ID, ErrorCode.NONE),
    ]
)
TPS = st.frozensets(st.sampled_from([A0, A1, B0]))


class Walk:
    """Answers what is under way, in any order, late or never, and holds the machine to its invariants."""

    def __init__(self, is_cooperative: bool) -> None:
        self.bench = Bench(is_cooperative=is_cooperative, max_poll_interval_ms=20_000)
        self.is_cooperative = is_cooperative
        self.reads: frozenset[TopicPartition] = frozenset()
        self.under_way: list[Join | Sync] = []
        self.beats: list[Beat] = []
        self.generation_id = 0

    def step(self, data: st.DataObject) -> None:
        choice = data.draw(
            st.sampled_from(["poll", "poll", "time", "answer", "answer", "beat", "topics", "refuse", "leave"])
        )
        bench = self.bench
        if choice == "poll":
            self.tell(Polled())
            while (handover := bench.machine.handover) is not None:
                assert handover.revoked | handover.lost <= self.reads
                assert handover.added.isdisjoint(self.reads)
                self.reads = self.reads - handover.revoked - handover.lost | handover.added
                self.tell(HandedOver(handover))
        elif choice == "time":
            self.tell(Tick(), after_ms=data.draw(st.integers(0, 15_000)))
        elif choice == "topics":
            self.tell(Subscribed(data.draw(st.frozensets(st.sampled_from(["a", "b"])))))
        elif choice == "leave":
            self.reads = frozenset()
            self.tell(Unsubscribed("over"))
        elif choice == "beat" and self.beats:
            self.tell(Beaten(self.beats.pop(0).generation_id, data.draw(ANSWERS)))
        elif choice == "refuse":
            code = data.draw(ANSWERS)
            if code is not None and code is not ErrorCode.NONE:
                self.tell(CommitRefused(data.draw(st.integers(-1, self.generation_id)), code))
        elif self.under_way:
            self.answer(self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1))), data)

    def answer(self, ask: Join | Sync, data: st.DataObject) -> None:
        code = data.draw(ANSWERS)
        if code is not ErrorCode.NONE:
            self.tell(Refused(ask.attempt, code, "why", "me"))
        elif isinstance(ask, Join):
            self.generation_id += 1
            self.tell(Joined(ask.attempt, JoinAnswer(self.generation_id, "me", "sticky", False)))
        else:
            self.tell(Synced(ask.attempt, data.draw(TPS)))

    def tell(self, event: Event, after_ms: int = 0) -> None:
        effects = self.bench.tell(event, after_ms=after_ms)
        machine = self.bench.machine
        assert machine.owned == self.reads or isinstance(event, HandedOver | Unsubscribed)
        if effects.join is not None:
            self.under_way.append(effects.join)
            if not self.is_cooperative:
                assert effects.join.owned == frozenset(), "let_go_first"
            if machine.generation_id == NO_GENERATION:
                assert effects.join.owned == frozenset(), "lost_is_told"
        if effects.sync is not None:
            self.under_way.append(effects.sync)
        if effects.beat is not None:
            assert not isinstance(machine.place, Joining | Outside | Ended), "beats_while_member"
            self.beats.append(effects.beat)
            assert len(self.beats) == 1, "one_at_a_time"
        deadline_ms = machine.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.bench.now_ms, (
            "a timer that is due at once, again and again"
        )


@pytest.mark.parametrize("is_cooperative", [True, False])
@given(data=st.data())
@settings(max_examples=settings().max_examples * 3 // 2)
def test_the_invariants_hold_in_any_order(is_cooperative: bool, data: st.DataObject) -> None:
    walk = Walk(is_cooperative)
    walk.tell(Subscribed(frozenset({"a"})))
    for _ in range(data.draw(st.integers(1, 40))):
        walk.step(data)


# -- the table --------------------------------------------------------------------------------------------------

PLACES: list[Place] = [
    *(Outside(), Waiting(0), LettingGo(), Joining(1), Syncing(1)),
    *(Settling(frozenset()), Stable(), Ended(ErrorCode.UNKNOWN, "why")),
]


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
def test_a_step_leads_where_the_table_says_or_is_an_error(place: Place, step: Step) -> None:
    told = {"not_before_ms": 1, "attempt": 2, "assigned": frozenset(), "code": ErrorCode.UNKNOWN, "why": "y"}
    expected = TABLE[step].get(type(place))
    if expected is None:
        with pytest.raises(AssertionError, match=step.name):
            follow(place, step, **told)
    else:
        assert type(follow(place, step, **told)) is expected
