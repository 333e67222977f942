"""Members and their coordinator together: the machines of both sides, with messages late, lost and out of order.

What a group is for: of those that the coordinator counts as its members no two ever read one partition; and once
nothing is in the way any more, every partition is read, and all read about as much.
"""

from __future__ import annotations

from itertools import combinations, count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.consumer.assignors import STRATEGIES
from semel.core.consumer.events import (
    Beat,
    Beaten,
    Divided,
    Event,
    HandedOver,
    JoinAnswer,
    Joined,
    Leave,
    Polled,
    Refused,
    Subscribed,
    Synced,
    Tick,
    TopicsSeen,
    Unsubscribed,
)
from semel.core.consumer.events import Join as JoinAsked
from semel.core.consumer.events import Sync as SyncAsked
from semel.core.consumer.membership import Membership, MembershipSettings
from semel.core.consumer.places import Stable
from semel.core.consumer.subscription import Subscription
from semel.core.group.group import Protocol
from semel.core.group.membership import GroupSettings
from semel.core.group.membership import Membership as Coordinator
from semel.core.group.requests import Effects, Heartbeat, Join, Leaving, Sync
from semel.core.group.requests import JoinAnswer as TheirJoinAnswer
from semel.core.group.requests import Leave as LeaveAsked
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.consumer_protocol import (
    SubscriptionData,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GROUP = "group"
SESSION_MS, POLL_MS = 6_000, 9_000
COUNTS = {"a": 5, "b": 3}


class Client:
    """One consumer: its machine, and what it reads."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.reads: frozenset[TopicPartition] = frozenset()
        self.machine = Membership(
            MembershipSettings(
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=1_000,
                max_poll_interval_ms=POLL_MS,
                is_cooperative=STRATEGIES[world.strategy].is_cooperative,
            )
        )

    def tell(self, event: Event) -> None:
        effects = self.machine.handle(event, self.world.now_ms)
        for ask in (effects.leave, effects.join, effects.sync, effects.beat):
            if ask is not None:
                self.world.asked.append((self, ask))

    def poll(self) -> None:
        self.tell(Polled())
        while (handover := self.machine.handover) is not None:
            self.reads = self.reads - handover.revoked - handover.lost | handover.added
            self.tell(HandedOver(handover))
            self.tell(Polled())


class World:
    """The coordinator, the messages on their way, and the time."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self.now_ms = 1_000
        self.coordinator = Coordinator(GroupSettings())
        self.clients: list[Client] = []
        self.asked: list[tuple[Client, JoinAsked | SyncAsked | Beat | Leave]] = []  # not there yet
        self.answers: list[tuple[Client, Event]] = []  # on their way back
        self._waiting: dict[int, tuple[Client, JoinAsked | SyncAsked]] = {}
        self._numbers = count(1)

    def add(self, topics: frozenset[str]) -> None:
        client = Client(self, f"c{len(self.clients)}")
        self.clients.append(client)
        client.tell(Subscribed(topics))

    # -- messages ---------------------------------------------------------------------------------------

    def arrive(self, number: int, *, is_lost: bool = False) -> None:
        """A request reaches the coordinator, or is lost on its way. What is due there is done first, as in a server."""
        self._take(self.coordinator.tick(self.now_ms, self.now_ms))
        client, ask = self.asked.pop(number)
        if is_lost:
            self._lose(client, ask)
        elif isinstance(ask, Leave):
            leave = LeaveAsked(GROUP, [Leaving(ask.member_id, None)])
            _, effects = self.coordinator.leave(leave, self.now_ms, self.now_ms)
            self._take(effects)
        elif isinstance(ask, Beat):
            beat = Heartbeat(GROUP, ask.generation_id, ask.member_id, None)
            code = self.coordinator.heartbeat(beat, self.now_ms)
            self.answers.append((client, Beaten(ask.generation_id, code)))
        else:
            ticket = next(self._numbers)
            self._waiting[ticket] = (client, ask)
            is_join = isinstance(ask, JoinAsked)
            self._take(self._join(ticket, client, ask) if is_join else self._sync(ticket, client, ask))  # type: ignore[arg-type]

    def _join(self, ticket: int, client: Client, ask: JoinAsked) -> Effects:
        data = SubscriptionData(tuple(sorted(ask.topics)), tuple(sorted(ask.owned)), ask.generation_id)
        return self.coordinator.join(
            Join(
                *(ticket, GROUP, ask.member_id, None, "client", "/host", SESSION_MS, POLL_MS, "consumer"),
                [Protocol(self.strategy, encode_subscription(data))],
                f"{client.name}-{ticket}",
                True,
                True,
            ),
            self.now_ms,
            self.now_ms,
        )

    def _sync(self, ticket: int, client: Client, ask: SyncAsked) -> Effects:
        answer = ask.answer
        assignments = {}
        if answer.is_leader:
            client.tell(Divided(ask.attempt, COUNTS))
            divided = STRATEGIES[self.strategy].assign(COUNTS, answer.members)
            assignments = {member_id: encode_assignment(tps) for member_id, tps in divided.items()}
        return self.coordinator.sync(
            Sync(
                *(ticket, GROUP, answer.generation_id, answer.member_id, None, "consumer", self.strategy),
                assignments,
            ),
            self.now_ms,
            self.now_ms,
        )

    def _take(self, effects: Effects) -> None:
        for ticket, answer in effects.answers:
            client, ask = self._waiting.pop(ticket)
            self.answers.append((client, self._event_of(ask, answer)))

    def _event_of(self, ask: JoinAsked | SyncAsked, answer: object) -> Event:
        code: ErrorCode = answer.error_code  # type: ignore[attr-defined]
        if code:
            return Refused(ask.attempt, code, code.name, getattr(answer, "member_id", ""))
        if isinstance(answer, TheirJoinAnswer):
            members = []
            for member in answer.members:
                told = decode_subscription(member.metadata)
                members.append(
                    Subscription(
                        member.member_id, frozenset(told.topics), frozenset(told.owned), told.generation_id
                    )
                )
            is_leader = answer.leader == answer.member_id
            return Joined(
                ask.attempt,
                JoinAnswer(answer.generation_id, answer.member_id, self.strategy, is_leader, tuple(members)),
            )
        return Synced(ask.attempt, frozenset(decode_assignment(answer.assignment)))  # type: ignore[attr-defined]

    def answer(self, number: int, *, is_lost: bool = False) -> None:
        """An answer reaches its client, or is lost on its way, which looks to it like any other loss."""
        client, event = self.answers.pop(number)
        if not is_lost:
            client.tell(event)
        elif isinstance(event, Beaten):
            client.tell(Beaten(event.generation_id, None))
        elif isinstance(event, Joined | Synced | Refused):
            client.tell(Refused(event.attempt, None, "lost"))

    def _lose(self, client: Client, ask: JoinAsked | SyncAsked | Beat | Leave) -> None:
        if isinstance(ask, Beat):
            client.tell(Beaten(ask.generation_id, None))
        elif isinstance(ask, JoinAsked | SyncAsked):
            client.tell(Refused(ask.attempt, None, "lost"))

    def pass_ms(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self._take(self.coordinator.tick(self.now_ms, self.now_ms))
        for client in self.clients:
            client.tell(Tick())

    # -- what holds -------------------------------------------------------------------------------------

    def check(self) -> None:
        group = self.coordinator.get(GROUP)
        members = set() if group is None else set(group.members)
        alive = [client for client in self.clients if client.machine.member_id in members]
        for one, other in combinations(alive, 2):
            both = one.reads & other.reads
            assert not both, f"{one.name} and {other.name} read {both}"

    def settle(self) -> None:
        """Nothing is in the way any more."""
        for _ in range(150):
            self.pass_ms(300)
            while self.asked:
                self.arrive(0)
            while self.answers:
                self.answer(0)
            for client in self.clients:
                client.poll()
            self.check()
            if (
                not self.asked
                and not self.answers
                and all(isinstance(client.machine.place, Stable) for client in self.clients)
                and self._is_even()
            ):
                return
        raise AssertionError([(client.machine.place, client.reads) for client in self.clients])

    def _is_even(self) -> bool:
        read = [tp for client in self.clients for tp in client.reads]
        loads = [len(client.reads) for client in self.clients]
        return len(read) == sum(COUNTS.values()) and max(loads) - min(loads) <= 1


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
@given(data=st.data())
@settings(max_examples=settings().max_examples * 3 // 5)
def test_no_two_members_read_one_partition_and_all_are_read_in_the_end(
    strategy: str, data: st.DataObject
) -> None:
    world = World(strategy)
    topics = frozenset(COUNTS) if strategy != "range" else frozenset({"a", "b"})
    for _ in range(data.draw(st.integers(1, 3))):
        world.add(topics)
    for _ in range(data.draw(st.integers(0, 60))):
        choice = data.draw(
            st.sampled_from(
                ["poll", "poll", "arrive", "arrive", "answer", "answer", "time", "lose", "come", "leave"]
            )
        )
        client = data.draw(st.sampled_from(world.clients))
        if choice == "poll":
            client.poll()
        elif choice == "time":
            world.pass_ms(data.draw(st.sampled_from([100, 1_000, 3_000, 10_000])))
        elif choice == "come" and len(world.clients) < 4:
            world.add(topics)
        elif choice == "leave":
            client.reads = frozenset()
            client.tell(Unsubscribed("over"))
            client.tell(Subscribed(topics))
        elif choice in ("arrive", "lose") and world.asked:
            number = data.draw(st.integers(0, len(world.asked) - 1))
            world.arrive(number, is_lost=choice == "lose")
        elif choice == "answer" and world.answers:
            number = data.draw(st.integers(0, len(world.answers) - 1))
            world.answer(number, is_lost=data.draw(st.sampled_from([False, False, False, True])))
        world.check()
    if strategy == "range":
        world._is_even = lambda: sum(len(each.reads) for each in world.clients) == sum(COUNTS.values())  # type: ignore[method-assign]
    world.settle()


def test_a_topic_that_grows_is_divided_anew() -> None:
    world = World("cooperative-sticky")
    for _ in range(2):
        world.add(frozenset(COUNTS))
    world.settle()
    COUNTS["a"] += 1
    try:
        for client in world.clients:
            client.tell(TopicsSeen(COUNTS))
        world.settle()
        assert sorted(len(client.reads) for client in world.clients) == [4, 5]
    finally:
        COUNTS["a"] -= 1
