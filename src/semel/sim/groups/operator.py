"""Who runs the members of groups, and does to them what people and orchestrators do.

Members are started, killed, stopped in good order, all of a group at once too; they stand still until they are taken
for gone, and go on. A static member comes back under its instance id, at times while its older copy still runs.
Topics grow, and are deleted and made anew; a group is deleted, and a tool commits for one as if nobody were in it. And
the server dies a moment after it has said something that it should remember.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from semel.errors import ErrorCode, SemelError
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.groups.member import GroupMember
from semel.sim.groups.requests import MODERN, GroupRequests
from semel.sim.groups.story import GroupPlan, GroupStory, Who
from semel.sim.groups.watcher import MemberWatcher
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.operator import Operator, drawn_interval_ms
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition
from semel.wire.api import ApiKey

REQUEST_TIMEOUT_MS: Final = 5_000
RESTART_MS: Final = (5, 1_500)
AGAIN_MS: Final = 60
LOOK_MS: Final = 100
KEEP_TOPICS_MS: Final = 3_000
DELETIONS: Final = 4
DELETE_AGAIN_MS_MAX: Final = 500
LAST_LOSS_CHANCE: Final = 0.3
LATE_MS: Final = 61_000  # a slow sync ends, a request that is under way has come
PATIENCE_MORE_MS: Final = 8_000  # the members' own pauses, and requests that they give up
PARTITIONS_MAX: Final = 4
MADE_ANEW_MS_MAX: Final = 800
CRASH_SOON_MS_MAX: Final = 8
FOR_GOOD_CHANCE: Final = 0.3  # that nobody takes a killed member's place, as long as others are there


@dataclass(frozen=True, slots=True)
class GroupMix:
    """Mean times of one seed between disasters of each kind; 0: none."""

    kill_ms: int
    leave_ms: int
    pause_ms: int
    twin_ms: int
    empty_ms: int  # a group of all its members
    tool_ms: int
    delete_ms: int
    grow_ms: int
    anew_ms: int
    crash_behind_answer: float  # the server, behind an answer to a member

    @staticmethod
    def draw(random: Random) -> GroupMix:
        """Each is on in about half of the seeds; topics are deleted in few."""

        def interval_ms(least: int, most: int, chance: float = 0.6) -> int:
            return drawn_interval_ms(random, least, most, chance)

        return GroupMix(
            kill_ms=interval_ms(1_500, 8_000),
            leave_ms=interval_ms(1_500, 8_000),
            pause_ms=interval_ms(2_000, 8_000),
            twin_ms=interval_ms(1_500, 6_000, 0.8),
            empty_ms=interval_ms(4_000, 12_000),
            tool_ms=interval_ms(1_000, 4_000),
            delete_ms=interval_ms(1_500, 5_000, 0.4),
            grow_ms=interval_ms(5_000, 15_000, 0.5),
            anew_ms=interval_ms(4_000, 12_000, 0.25),
            crash_behind_answer=random.choice((0.0, 0.003, 0.01, 0.03)),
        )


class GroupOperator(Operator):
    """Of all groups of one history."""

    def __init__(
        self,
        story: GroupStory,
        server: SimulatedServer,
        random: Random,
        around: Surroundings,
        mix: GroupMix,
    ) -> None:
        self.members: Final[list[GroupMember]] = []  # those that live, zombies included
        super().__init__(server, random, around)
        self._story, self._mix = story, mix
        self._process = Process(around.scheduler)
        self._topics = SimulatedCluster(
            self._process, Session("groups.admin", self._process, around.network), REQUEST_TIMEOUT_MS
        )
        self._tools = {
            plan.group_id: GroupRequests(plan, story, f"{plan.group_id}.tool", self._process, around, MODERN)
            for plan in story.plans
        }
        self._lives = 0
        self._open = 0  # changes of topics, and what tools ask
        self._looked_up: set[str] = set()  # groups whose positions were asked for at the end
        self._drive(self._begin())

    # -- the beginning and the end ----------------------------------------------------------------------

    async def _begin(self) -> None:
        for name in self._story.topics:
            await self._make(name)
        self._story.is_made = True
        for plan in self._story.plans:
            for number in range(plan.members):
                self._start_later(plan, number)
        mix = self._mix
        for mean_ms, happen in (
            (mix.kill_ms, self._kill),
            (3 * mix.kill_ms, self._fill_up),
            (mix.leave_ms, self._leave),
            (mix.pause_ms, self._pause),
            (mix.twin_ms, self._start_twin),
            (mix.empty_ms, self._empty),
            (mix.tool_ms, lambda: self._drive(self._commit_by_tool())),
            (mix.delete_ms, lambda: self._drive(self._delete_group(self._random.choice(self._story.plans)))),
            (mix.grow_ms, lambda: self._drive(self._grow())),
            (mix.anew_ms, lambda: self._drive(self._make_anew())),
        ):
            if mean_ms:
                self._later(mean_ms, happen)

    def stop(self) -> None:
        """One last loss, at times, and no more disasters: who is there stays, and becomes calm."""
        if self._random.random() < LAST_LOSS_CHANCE:
            self._lose_one_beside_the_server()
        self._stopped_ms = self._disturbed_ms = self._around.scheduler.now_ms
        for member in self.members:
            member.is_calm = True
        self._look()
        self._keep_topics()

    def _lose_one_beside_the_server(self) -> None:
        """A member dies, and the server soon after: whoever comes up must find out that the one will not."""
        member = self._some()
        if member is None or all(one is member or one.plan is not member.plan for one in self.members):
            return
        if self._around.counts.bites(Fault.GROUP_MEMBER_KILL, self._random, 1.0):
            self._around.trace.note(member.name, "killed, and soon the server")
            member.die()
            self.members.remove(member)
            within_ms = member.plan.session_timeout_ms // 3
            self._around.scheduler.after(
                self._random.randint(0, within_ms), lambda: None if self._is_over else self._server.kill()
            )

    def _look(self) -> None:
        """Whether groups are stable, again and again."""
        if self._is_over:
            return
        assert self._stopped_ms is not None
        now_ms, watcher = self._around.scheduler.now_ms, self._around.watchers.of(MemberWatcher)
        if not self._server.is_healthy or self._open or not self._story.is_made:
            self._disturbed_ms = now_ms
        quiet_from_ms = max(self._stopped_ms + LATE_MS, self._disturbed_ms)
        for plan in self._story.plans:
            open_still = self._what_is_open_in(plan)
            patience_ms = plan.session_timeout_ms + 2 * plan.rebalance_timeout_ms + PATIENCE_MORE_MS
            watcher.group_waited(plan.group_id, now_ms - quiet_from_ms, patience_ms, open_still)
            if open_still is None and plan.group_id not in self._looked_up:
                self._drive(self._look_up(plan))
        self._around.scheduler.after(LOOK_MS, self._look)

    def _keep_topics(self) -> None:
        """Copies of requests that were long under way may have deleted a topic, or made a smaller one."""
        if not self._is_over:
            if not self._open and self.what_is_open:
                drive(self._make_as_they_should_be(), _unless_a_defect)
            self._around.scheduler.after(KEEP_TOPICS_MS, self._keep_topics)

    async def _make_as_they_should_be(self) -> None:
        topics = (await self._topics.metadata(list(self._story.topics))).topics
        for name, count in self._story.topics.items():
            if name not in topics or topics[name].error_code:
                await self._make(name)
                self._disturbed_ms = self._around.scheduler.now_ms
            elif len(topics[name].partitions) < count:
                await self._topics.add_partitions({name: count})
                self._disturbed_ms = self._around.scheduler.now_ms

    async def _look_up(self, plan: GroupPlan) -> None:
        tps = [TopicPartition(topic, n) for topic in plan.topics for n in range(self._story.topics[topic])]
        if await self._tools[plan.group_id].positions(tps) is not None:
            self._looked_up.add(plan.group_id)

    def _what_is_open_in(self, plan: GroupPlan) -> str | None:
        members = [one for one in self.members if one.plan is plan]
        if not members:
            return "nobody is there"
        out = [one.name for one in members if one.held is None]
        if out:
            return f"{out} are in no generation"
        held = [one.held for one in members if one.held is not None]
        if len({one.generation_id for one in held}) > 1:
            return f"generations {sorted({one.generation_id for one in held})}"
        owned = sorted(tp for one in held for tp in one.partitions)
        wanted = sorted(
            TopicPartition(topic, n) for topic in plan.topics for n in range(self._story.topics[topic])
        )
        return None if owned == wanted else f"{owned} of {wanted} are owned"

    @property
    def is_settled(self) -> bool:
        return not self._open and not self.what_is_open

    @property
    def what_is_open(self) -> list[str]:
        found = []
        for plan in self._story.plans:
            open_still = self._what_is_open_in(plan)
            if open_still is not None or plan.group_id not in self._looked_up:
                found.append(f"{plan.group_id}: {open_still}")
        return found

    @property
    def processes(self) -> list[tuple[str, Process]]:
        return [(member.name, member.process) for member in self.members]

    def end(self) -> None:
        self._is_over = True
        for member in self.members:
            member.die()
        self.members.clear()
        for tool in self._tools.values():
            tool.die()
        self._process.alive = False

    # -- members ----------------------------------------------------------------------------------------

    def _start_later(self, plan: GroupPlan, number: int) -> None:
        self._around.scheduler.after(
            self._random.randint(*RESTART_MS), lambda: None if self._is_over else self._start(plan, number)
        )

    def _start(self, plan: GroupPlan, number: int) -> None:
        """The member of that number; the first ones are static."""
        is_static = number < plan.static_members
        self._lives += 1
        member = GroupMember(
            plan,
            self._story,
            f"{plan.group_id}.m{number}.{self._lives}",
            f"{plan.group_id}.i{number}" if is_static else None,
            Random(self._random.random()),
            self._around,
            on_end=lambda ended: self._ended(ended, number),
            on_step=self._stepped,
        )
        member.is_calm = not self.is_wanted
        self.members.append(member)

    def _ended(self, member: GroupMember, number: int) -> None:
        """It has left, or was fenced. Unless a newer copy runs, another one begins."""
        if member in self.members:
            self.members.remove(member)
        twins = [one for one in self.members if member.instance_id and one.instance_id == member.instance_id]
        if not twins:
            self._start_later(member.plan, number)

    def _stepped(self, api_key: ApiKey) -> None:
        """The server has answered a member something that matters."""
        if self.is_wanted and self._random.random() < self._mix.crash_behind_answer:
            self._around.scheduler.after(self._random.randint(0, CRASH_SOON_MS_MAX), self._crash)

    def _number_of(self, member: GroupMember) -> int:
        return int(member.name.split(".")[1].removeprefix("m"))

    def _some(self) -> GroupMember | None:
        return self._random.choice(self.members) if self.members else None

    def _kill(self) -> None:
        member = self._some()
        if member is not None and self._around.counts.bites(Fault.GROUP_MEMBER_KILL, self._random, 1.0):
            self._around.trace.note(member.name, "killed")
            member.die()
            self.members.remove(member)
            others = [one for one in self.members if one.plan is member.plan]
            if not others or self._random.random() >= FOR_GOOD_CHANCE:
                self._ended(member, self._number_of(member))

    def _fill_up(self) -> None:
        """Places that are free are taken again."""
        for plan in self._story.plans:
            taken = {self._number_of(one) for one in self.members if one.plan is plan}
            for number in sorted(set(range(plan.members)) - taken):
                self._start_later(plan, number)

    def _leave(self) -> None:
        member = self._some()
        if member is not None:
            member.is_to_leave = True

    def _empty(self) -> None:
        plan = self._random.choice(self._story.plans)
        if self._around.counts.bites(Fault.GROUP_EMPTIED, self._random, 1.0):
            for member in self.members:
                member.is_to_leave |= member.plan is plan
            if self._mix.delete_ms:
                self._drive(self._delete_soon(plan))

    async def _delete_soon(self, plan: GroupPlan) -> None:
        """Again and again, for a group can be deleted only between its last member and the next one."""
        for _ in range(DELETIONS):
            await self._topics.runtime.pause(self._random.randint(1, DELETE_AGAIN_MS_MAX))
            await self._delete_group(plan)

    def _pause(self) -> None:
        """Mostly until it is taken for gone."""
        member = self._some()
        if member is not None and self._around.counts.bites(Fault.GROUP_MEMBER_PAUSE, self._random, 1.0):
            pause_ms = int(member.plan.session_timeout_ms * self._random.uniform(0.3, 2.5))
            member.process.stop_for(pause_ms)
            self._around.trace.note(member.name, f"stands still for {pause_ms} ms")

    def _start_twin(self) -> None:
        static = [one for one in self.members if one.instance_id is not None and not one.is_to_leave]
        if static and self._around.counts.bites(Fault.GROUP_TWIN, self._random, 1.0):
            older = self._random.choice(static)
            if self._random.random() < 0.5:  # so that it has something to say later
                older.process.stop_for(self._random.randint(100, 2 * older.plan.session_timeout_ms))
            self._start(older.plan, self._number_of(older))

    # -- groups and topics ------------------------------------------------------------------------------

    def _drive(self, work: Coroutine[Any, Any, None]) -> None:
        def done(result: None, error: Exception | None) -> None:
            self._open -= 1
            if error is not None and not isinstance(error, SemelError):
                raise error
            if error is not None:
                self._around.trace.note("groups", f"refused: {type(error).__name__}: {error}")

        self._open += 1
        drive(work, done)

    async def _commit_by_tool(self) -> None:
        """As by ``kafka-consumer-groups --reset-offsets``, which is for groups without members."""
        plan = self._random.choice(self._story.plans)
        tool = self._tools[plan.group_id]
        topic = self._random.choice(plan.topics)
        tp = TopicPartition(topic, self._random.randrange(self._story.topics[topic]))
        await tool.positions([tp])
        await tool.commit(Who(plan.group_id, "tool", ""), -1, {tp: self._random.randint(0, 9)})

    async def _delete_group(self, plan: GroupPlan) -> None:
        if not self._around.counts.occurs(Fault.GROUP_DELETED):
            return
        if await self._tools[plan.group_id].delete_group() is ErrorCode.NONE:
            self._around.counts.bit(Fault.GROUP_DELETED)

    async def _grow(self) -> None:
        name = self._random.choice(list(self._story.topics))
        count = self._story.topics[name] + 1
        if count > PARTITIONS_MAX or not self._around.counts.occurs(Fault.GROUP_TOPIC_GROWN):
            return
        self._story.topics[name] = count
        await self._until_done(
            lambda: self._topics.add_partitions({name: count}), ErrorCode.INVALID_PARTITIONS
        )
        self._around.counts.bit(Fault.GROUP_TOPIC_GROWN)

    async def _make_anew(self) -> None:
        name = self._random.choice(list(self._story.topics))
        if self._open > 1 or not self._around.counts.occurs(Fault.GROUP_TOPIC_ANEW):
            return
        self._story.deleted_topics.add(name)
        await self._until_done(
            lambda: self._topics.delete_topics([name]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        await self._topics.runtime.pause(self._random.randint(0, MADE_ANEW_MS_MAX))
        await self._make(name)
        self._around.counts.bit(Fault.GROUP_TOPIC_ANEW)

    async def _make(self, name: str) -> None:
        await self._until_done(
            lambda: self._topics.create_topics({name: self._story.topics[name]}),
            ErrorCode.TOPIC_ALREADY_EXISTS,
        )

    async def _until_done(self, ask: Callable[[], Coroutine[Any, Any, Any]], already: ErrorCode) -> None:
        """``already``: it was carried out, and the answer lost. What is to grow may have been deleted meanwhile."""
        while not self._is_over:
            try:
                await ask()
                return
            except SemelError as error:
                if getattr(error, "code", None) in (already, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    return
                await self._topics.runtime.pause(AGAIN_MS)


def _unless_a_defect(result: None, error: Exception | None) -> None:
    if error is not None and not isinstance(error, SemelError):
        raise error
