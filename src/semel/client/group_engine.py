"""The shell around a consumer's membership: requests, timers, the leader's division, topics that come and go.

Everything happens on one loop, beside the owner: heartbeats go on while it works. What a member sends goes over
connections of its own, for a coordinator answers a connection's requests in their order, and a JoinGroup only when
everybody has joined (Kafka's clients do the same).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from semel.client.cluster import Cluster
from semel.client.groups import Membership as As
from semel.client.runtime import monotonic_ms
from semel.core.consumer.assignors import STRATEGIES, are_cooperative
from semel.core.consumer.events import (
    Beat,
    Beaten,
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
from semel.core.consumer.places import Ended
from semel.core.consumer.subscription import NO_GENERATION, Subscription
from semel.errors import BrokerError, ConnectionLost, ErrorCode, GroupError, MemberFenced, SemelError
from semel.types import TopicPartition
from semel.wire.consumer_protocol import (
    SubscriptionData,
    decode_assignment,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
)
from semel.wire.frames import INT32, MalformedMessage

_MISSING_TOPIC_LOOK_MS: Final = 2_000
_LEAVE_S: Final = 5.0
_STICKY: Final = "sticky"


class GroupEngine:
    """Runs one membership on the loop that runs when it is made."""

    def __init__(
        self,
        cluster: Cluster,
        line: Cluster,
        group: str,
        strategies: Sequence[str],
        settings: MembershipSettings,
        *,
        metadata_max_age_ms: int,
    ) -> None:
        self.machine = Membership(settings)
        self.group = group
        self._cluster, self._line = cluster, line
        self._strategies = tuple(strategies)
        self._settings = settings
        self._metadata_max_age_ms = metadata_max_age_ms
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._topics: frozenset[str] = frozenset()
        self._has_looked = True  # the newest look for what the pattern stands for was answered
        self._had: tuple[frozenset[TopicPartition], int] = (frozenset(), NO_GENERATION)
        self._failing_since_ms: int | None = None
        self._failure: SemelError | None = None
        self._broken: BaseException | None = None

    # -- for the owner ----------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """What is subscribed to; by a pattern, what there is of it so far."""
        return self._topics

    @property
    def speaks_as(self) -> As:
        """As whom the owner commits."""
        machine = self.machine
        return As(machine.member_id, machine.generation_id, self._settings.group_instance_id)

    async def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Read these from the next poll on; of a pattern those that there are, and look for more.

        A pattern is subscribed to also where nobody says what there is of it: that is raised, and looked for again.
        """
        if self._watching is not None:
            self._watching.cancel()
        self._pattern = topics if isinstance(topics, re.Pattern) else None
        self._has_looked = self._pattern is None
        try:
            if isinstance(topics, re.Pattern):
                await self._look()  # until it is answered, what was subscribed to before is kept
            else:
                self._topics = frozenset(topics)
            self.handle(Subscribed(self._topics))
        finally:
            self._watching = self._start(self._watch())

    async def leave(self, reason: str) -> None:
        """Be no member any more, and say so. The owner has let go of everything."""
        self._topics, self._pattern = frozenset(), None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self.handle(Unsubscribed(reason))
        leaving = [task for task in self._tasks if task.get_name() == Leave.__name__]
        if leaving:
            await asyncio.wait(leaving, timeout=_LEAVE_S)

    async def close(self) -> None:
        """End every task; :meth:`leave` came before."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise what the owner has to know: that the membership ended, or that no coordinator answers."""
        if self._broken is not None:
            raise self._broken
        place = self.machine.place
        if isinstance(place, Ended):
            raise self._error_of(place)
        since_ms, failure = self._failing_since_ms, self._failure
        if since_ms is not None and monotonic_ms() - since_ms >= self._cluster.request_timeout_ms:
            self._failing_since_ms = None
            raise ConnectionLost(
                f"no coordinator of group {self.group!r} has answered for {self._cluster.request_timeout_ms} ms "
                f"({failure}); nothing was committed since. Poll again to go on trying"
            )

    def polled(self) -> Handover | None:
        """The owner polls: what it is to do first."""
        self._changed.clear()
        self.handle(Polled())
        return self.machine.handover

    async def changed(self, timeout_s: float) -> None:
        """Until something happened to the member since its owner polled, or ``timeout_s`` are over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    # -- the machine ------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        effects = self.machine.handle(event, monotonic_ms())
        self._carry_out(effects)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None:
            wait_s = max(0, deadline_ms - monotonic_ms()) / 1000
            self._timer = self._loop.call_later(wait_s, self._tick)
        if not isinstance(event, Polled | HandedOver):
            self._changed.set()

    def _tick(self) -> None:
        try:
            self.handle(Tick())
        except Exception as error:
            self._broken = error
            self._changed.set()

    def _carry_out(self, effects: Effects) -> None:
        if effects.leave is not None:
            self._start(self._say_goodbye(effects.leave), Leave.__name__)
        if effects.join is not None:
            self._start(self._join(effects.join))
        if effects.sync is not None:
            self._start(self._sync(effects.sync))
        if effects.beat is not None:
            self._start(self._beat(effects.beat))

    def _start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of this program's own is told by the next poll."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            self._changed.set()

    # -- requests ---------------------------------------------------------------------------------------

    async def _join(self, ask: Join) -> None:
        try:
            answer = await self._line.join_group(
                self.group,
                As(ask.member_id, ask.generation_id, self._settings.group_instance_id),
                [(name, self._subscription(name, ask)) for name in self._strategies],
                session_timeout_ms=self._settings.session_timeout_ms,
                rebalance_timeout_ms=self._settings.max_poll_interval_ms,
                reason=ask.reason,
            )
        except SemelError as error:
            self._failed(ask.attempt, error)
            return
        self._answers()
        code = ErrorCode.of(int(answer.error_code))
        if code:
            self.handle(Refused(ask.attempt, code, f"JoinGroup was answered {code.name}", answer.member_id))
            return
        strategy = str(answer.protocol_name)
        self.handle(
            Joined(
                ask.attempt,
                JoinAnswer(
                    int(answer.generation_id),
                    answer.member_id,
                    strategy,
                    answer.leader == answer.member_id,
                    tuple(_subscription_of(strategy, item) for item in answer.members),
                    bool(getattr(answer, "skip_assignment", False)),
                ),
            )
        )

    async def _sync(self, ask: Sync) -> None:
        answer = ask.answer
        try:
            assignments = await self._divide(ask) if answer.is_leader else {}
            synced = await self._line.sync_group(
                self.group,
                As(answer.member_id, answer.generation_id, self._settings.group_instance_id),
                answer.strategy,
                assignments,
            )
            code = ErrorCode.of(int(synced.error_code))
            assigned = frozenset() if code else frozenset(decode_assignment(synced.assignment))
        except SemelError as error:
            self._failed(ask.attempt, error)
            return
        self._answers()
        if code:
            self.handle(Refused(ask.attempt, code, f"SyncGroup was answered {code.name}"))
            return
        self._had = (assigned, answer.generation_id)
        self.handle(Synced(ask.attempt, assigned))

    async def _divide(self, ask: Sync) -> dict[str, bytes]:
        """As leader: who reads what, by the number of partitions that there are now."""
        members = ask.answer.members
        topics = {topic for member in members for topic in member.topics}
        counts = await self._partition_counts(topics)
        self.handle(Divided(ask.attempt, {topic: counts.get(topic, 0) for topic in topics}))
        if ask.answer.skips_division:
            return {}
        assigned = STRATEGIES[ask.answer.strategy].assign(counts, members)
        return {member_id: encode_assignment(tps) for member_id, tps in assigned.items()}

    async def _beat(self, ask: Beat) -> None:
        member = As(ask.member_id, ask.generation_id, self._settings.group_instance_id)
        code: ErrorCode | None = None
        try:
            code = await self._line.heartbeat(self.group, member)
        except SemelError as error:
            self._failing(error)
        else:
            self._answers()
        self.handle(Beaten(ask.generation_id, code))

    async def _say_goodbye(self, ask: Leave) -> None:
        try:  # over the owner's connections: behind a JoinGroup it would wait for the others to join
            await self._cluster.leave_group(self.group, ask.member_id, ask.reason)
        except SemelError:
            pass  # the session ends by itself

    def _failed(self, attempt: int, error: SemelError) -> None:
        """No answer, or none that says how the member stands."""
        code = error.code if isinstance(error, BrokerError) and not error.code.retriable else None
        if code is None:
            self._failing(error)
        self.handle(Refused(attempt, code, str(error)))

    def _failing(self, error: SemelError) -> None:
        self._failure = error
        if self._failing_since_ms is None:
            self._failing_since_ms = monotonic_ms()

    def _answers(self) -> None:
        self._failing_since_ms = self._failure = None

    def _error_of(self, place: Ended) -> GroupError:
        if place.code is ErrorCode.FENCED_INSTANCE_ID:
            return MemberFenced(
                f"another consumer joined group {self.group!r} as "
                f"group_instance_id={self._settings.group_instance_id!r}: this one reads no more, and what it had not "
                f"committed is read again by the other. Give each consumer a group_instance_id of its own",
                place.code,
            )
        return GroupError(
            f"group {self.group!r} cannot be joined: {place.why}{_ADVICE.get(place.code, '')}", place.code
        )

    # -- what members tell each other -------------------------------------------------------------------

    def _subscription(self, strategy: str, ask: Join) -> bytes:
        """What the leader learns of this member, should ``strategy`` be chosen."""
        topics = tuple(sorted(ask.topics))
        if strategy == _STICKY:
            return encode_subscription(SubscriptionData(topics, user_data=encode_sticky_data(*self._had)))
        if not are_cooperative(self._strategies):
            return encode_subscription(SubscriptionData(topics))
        owned = tuple(sorted(ask.owned))
        user_data = INT32.pack(ask.generation_id)  # for leaders that read no version 2 of the protocol
        return encode_subscription(SubscriptionData(topics, owned, ask.generation_id, None, user_data))

    # -- topics -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look again and again at what topics there are; sooner while one is missing, or nobody has answered."""
        while True:
            watched = self._watched()
            counts = self._cluster.partition_counts
            is_missing = not self._has_looked or (
                self._pattern is None and any(topic not in counts for topic in watched)
            )
            wait_ms = (
                min(self._metadata_max_age_ms, _MISSING_TOPIC_LOOK_MS)
                if is_missing
                else self._metadata_max_age_ms
            )
            await asyncio.sleep(wait_ms / 1000)
            try:
                await self._look()
            except SemelError as error:
                self._has_looked = self._pattern is None
                self._failing(error)
            else:
                if not self._topics:  # there is no coordinator whose answer could show that it is over
                    self._answers()

    async def _look(self) -> None:
        counts = await self._partition_counts(None if self._pattern is not None else self._watched())
        if self._pattern is not None:
            pattern = self._pattern
            topics = frozenset(topic for topic in counts if pattern.search(topic))
            if topics != self._topics:
                self._topics = topics
                self.handle(Subscribed(topics))
            self._has_looked = True
        self.handle(TopicsSeen(counts))

    def _watched(self) -> set[str]:
        return set(self._topics) | set(self.machine.divided_topics)

    async def _partition_counts(self, topics: Iterable[str] | None) -> Mapping[str, int]:
        """Of topics that there are; without names of all but the internal ones."""
        found = (await self._cluster.metadata(None if topics is None else sorted(topics))).topics.values()
        return {
            topic.name: len(topic.partitions)
            for topic in found
            if topic.partitions and (topics is not None or not topic.is_internal)
        }


_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        ". Its members divide partitions by another strategy, or it is no group of consumers: give all members one "
        "partition_assignment_strategy in common (Kafka's Java clients begin with range, and offer cooperative-sticky)"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        ". session_timeout_ms lies outside of what the brokers allow: group.min.session.timeout.ms to "
        "group.max.session.timeout.ms, 6 s to 30 min by default"
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ". It has as many members as the brokers allow (group.max.size)",
}


def _subscription_of(strategy: str, item: Any) -> Subscription:
    """A member as its leader sees it; one whose words make no sense asks for nothing."""
    try:
        data = decode_subscription(item.metadata)
    except MalformedMessage:
        data = SubscriptionData(())
    owned, generation_id = data.owned, data.generation_id
    if strategy == _STICKY:
        owned, generation_id = decode_sticky_data(data.user_data)
    elif generation_id == NO_GENERATION:
        _, generation_id = decode_sticky_data(data.user_data)
    return Subscription(
        item.member_id,
        frozenset(data.topics),
        frozenset(owned),
        generation_id,
        getattr(item, "group_instance_id", None),
    )
