"""A group member's process: it joins, syncs, reads on from what is committed, commits, and joins again when it must.

It reads positions instead of rows. What it has no answer to it asks again. Now and then it does what a client does that
is not of one mind: sends commits, heartbeats and assignments of a generation that it has left behind, while it goes on
in the next one, and commits after it has said that it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from semel.errors import ErrorCode, SemelError
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.groups.assignment import Assignment, assign, encode_subscription
from semel.sim.groups.requests import MODERN, NO_ANSWER, OLDER, OLDEST, GroupRequests
from semel.sim.groups.story import GroupPlan, GroupStory, Strategy, Who
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition
from semel.wire.api import ApiKey

AGAIN_MS: Final = (20, 250)
METADATA_TIMEOUT_MS: Final = 3_000
LATE_MS_MAX: Final = 1_500
COMMIT_CHANCE: Final = 0.5
LOOK_CHANCE: Final = 0.3  # at what is committed
TOPICS_CHANCE: Final = 0.3  # that a leader looks whether topics have changed
LATE_CHANCE: Final = 0.3  # that requests of an older generation are still to come
REJOIN_CHANCE: Final = 0.02  # of its own accord
_AGAIN: Final = frozenset(
    {
        NO_ANSWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
_JOINS_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True)
class Held:
    """A generation, as the member has it."""

    who: Who
    generation_id: int
    partitions: tuple[TopicPartition, ...]
    assignments: dict[str, Assignment]  # of a leader: what it has made of it


class GroupMember:
    """One life. ``on_end`` is called when it ends by itself; ``on_step`` after each answer that settles something."""

    def __init__(
        self,
        plan: GroupPlan,
        story: GroupStory,
        name: str,
        instance_id: str | None,
        random: Random,
        around: Surroundings,
        *,
        on_end: Callable[[GroupMember], None],
        on_step: Callable[[ApiKey], None],
    ) -> None:
        self.plan: Final = plan
        self.name: Final = name
        self.instance_id: Final = instance_id
        self.process: Final = Process(around.scheduler)
        self.is_over = False  # it has left, was fenced or killed
        self.is_to_leave = False
        self.is_calm = False  # True: it does nothing that it need not
        self.held: Held | None = None  # while it has its part of the present generation, as far as it knows
        self._story, self._random, self._around = story, random, around
        self._on_end, self._on_step = on_end, on_step
        versions = MODERN if instance_id is not None else random.choice((MODERN, MODERN, OLDER, OLDEST))
        self._requests = GroupRequests(plan, story, name, self.process, around, versions)
        self._late = GroupRequests(plan, story, f"{name}.late", self.process, around, versions)
        self._metadata = Session(name, self.process, around.network)
        self._cluster = SimulatedCluster(self.process, self._metadata, METADATA_TIMEOUT_MS)
        self._who = Who(plan.group_id, name, "", instance_id)
        self._last: Held | None = None  # the newest that it had
        self._positions: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}  # of partitions, as it has assigned them
        self._is_leader = False
        drive(self._live(), self._ended)

    def die(self) -> None:
        """Without a word."""
        self.is_over = True
        self.process.alive = False
        self._requests.die()
        self._late.die()
        self._metadata.die()

    def _ended(self, result: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self.is_over = True
        self._on_end(self)

    async def _live(self) -> None:
        """Until it leaves or is fenced."""
        while not self.is_over:
            self.held = None
            before = self._last
            held = await self._join()
            if held is None:
                continue
            self.held = self._last = held
            await self._read(held, lets_go=self._lets_go(before, held))

    async def _pause(self, least_ms: int, most_ms: int) -> None:
        await self._cluster.runtime.pause(self._random.randint(least_ms, most_ms))

    # -- into a generation

    async def _join(self) -> Held | None:
        """``None``: not this time."""
        if self.is_to_leave:
            await self._leave()
            return None
        eager = self.plan.strategy is not Strategy.COOPERATIVE
        owned = [] if eager or self._last is None else self._last.partitions
        before = self._last
        joined = await self._requests.join(self._who, encode_subscription(self.plan.topics, owned))
        if joined.code is ErrorCode.MEMBER_ID_REQUIRED:
            self._who = self._who._replace(member_id=joined.member_id)
            return None
        if joined.code is not ErrorCode.NONE:
            await self._after(joined.code)
            return None
        self._who = self._who._replace(member_id=joined.member_id)
        if before is not None and before.generation_id != joined.generation_id:
            self._begin_late(before)
        assignments: dict[str, Assignment] = {}
        self._is_leader, self._counts = joined.is_leader, {}
        if joined.is_to_assign:
            made = await self._assign(joined.members)
            if made is None:
                return None
            assignments = {
                member_id: Assignment(joined.generation_id, tuple(part)) for member_id, part in made.items()
            }
        code, assignment = await self._requests.sync(self._who, joined.generation_id, assignments)
        while code in _AGAIN:  # it may have been taken
            await self._pause(*AGAIN_MS)
            code, assignment = await self._requests.sync(self._who, joined.generation_id, assignments)
        if code is not ErrorCode.NONE:
            await self._after(code)
            return None
        self._on_step(ApiKey.SYNC_GROUP)
        partitions = () if assignment is None else assignment.partitions
        return Held(self._who, joined.generation_id, partitions, assignments)

    async def _assign(self, members: Any) -> dict[str, list[TopicPartition]] | None:
        counts = await self._partition_counts()
        if counts is None:
            await self._pause(*AGAIN_MS)
            return None
        self._counts = counts
        return assign(self.plan.strategy, members, counts, self._random)

    async def _partition_counts(self) -> dict[str, int] | None:
        try:
            topics = (await self._cluster.metadata(self.plan.topics)).topics
        except SemelError:
            return None
        return {
            name: len(topics[name].partitions)
            for name in self.plan.topics
            if name in topics and not topics[name].error_code
        }

    async def _after(self, code: ErrorCode) -> None:
        """What a refusal asks for, before it joins again."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._who = self._who._replace(member_id="")
            if self._last is not None:
                self._begin_late(self._last)
            self._last = None
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.is_over = True
        elif code in _AGAIN:
            await self._pause(*AGAIN_MS)
        elif code not in _JOINS_AGAIN:
            raise AssertionError(f"{self._who} was told {code.name}")

    # -- within one

    async def _read(self, held: Held, *, lets_go: bool) -> None:
        """Until another generation comes, or it is to leave."""
        if not await self._find_positions(held):
            return
        if lets_go:
            return  # others wait for it
        while not self.is_over:
            await self._pause(1, 2 * self.plan.heartbeat_ms)
            if self.is_to_leave:
                await self._leave()
                return
            code = await self._requests.heartbeat(held.who, held.generation_id)
            if code is ErrorCode.REBALANCE_IN_PROGRESS and held.partitions:
                await self._commit(held)  # what it has read, before somebody else reads on
            if code is not ErrorCode.NONE and code not in _AGAIN:
                await self._after(code)
                return
            if not await self._work(held):
                return

    async def _work(self, held: Held) -> bool:
        """Whether it stays in this generation."""
        random = self._random
        if held.partitions and random.random() < COMMIT_CHANCE:
            for code in await self._commit(held):
                if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, *_JOINS_AGAIN):
                    await self._after(code)
                    return False
            self._on_step(ApiKey.OFFSET_COMMIT)
        if held.partitions and random.random() < LOOK_CHANCE:
            await self._requests.positions(held.partitions)
        if self._is_leader and random.random() < TOPICS_CHANCE:
            counts = await self._partition_counts()
            knew = self._counts or self.is_calm  # who has not assigned does not know what was there then
            if counts is not None and knew and counts != self._counts:
                return False
        return self.is_calm or random.random() >= REJOIN_CHANCE

    async def _find_positions(self, held: Held) -> bool:
        if not held.partitions:
            return True
        found = None
        while found is None and not self.is_over:
            found = await self._requests.positions(held.partitions)
            if found is None:
                await self._pause(*AGAIN_MS)
                code = await self._requests.heartbeat(held.who, held.generation_id)
                if code is not ErrorCode.NONE and code not in _AGAIN:
                    await self._after(code)
                    return False
        self._positions = {tp: max(0, position) for tp, position in (found or {}).items()}
        return True

    def _lets_go(self, before: Held | None, held: Held) -> bool:
        """Whether it came into this generation with partitions that it is to let go of."""
        if before is None or self.plan.strategy is not Strategy.COOPERATIVE:
            return False
        return bool(set(before.partitions) - set(held.partitions))

    async def _commit(self, held: Held) -> list[ErrorCode]:
        tps = self._random.sample(held.partitions, self._random.randint(1, len(held.partitions)))
        for tp in tps:
            self._positions[tp] = self._positions.get(tp, 0) + self._random.randint(1, 9)
        offsets = {tp: self._positions[tp] for tp in tps}
        return list(await self._requests.commit(held.who, held.generation_id, offsets))

    async def _leave(self) -> None:
        """Said or not, it is over."""
        for _ in range(5):
            if not self._who.member_id or await self._requests.leave(self._who) is not NO_ANSWER:
                break
        self._on_step(ApiKey.LEAVE_GROUP)
        if self._last is not None:
            await self._come_late(self._last)
        self.is_over = True

    # -- of an older generation

    def _begin_late(self, held: Held) -> None:
        if not self.is_calm and self._random.random() < LATE_CHANCE:
            self._beside(self._come_late(held))

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        def done(result: None, error: Exception | None) -> None:
            if error is not None:
                raise error

        drive(work, done)

    async def _come_late(self, held: Held) -> None:
        """What would have been sent before, from another thread, say."""
        await self._pause(1, LATE_MS_MAX)
        if held.partitions:
            position = self._random.randint(0, 3)
            await self._late.commit(held.who, held.generation_id, dict.fromkeys(held.partitions, position))
        await self._late.heartbeat(held.who, held.generation_id)
        if held.assignments:
            await self._late.sync(held.who, held.generation_id, held.assignments)
