"""An operation goes on when what it waits for has come, and ends once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from semel.server.changes import Changes
from semel.server.durability import GroupCommit
from semel.server.operation import Happened, InTurn, Steps, Synced
from semel.server.operations import Operations
from semel.server.purgatory import Purgatory
from semel.server.storage.aside import aside
from semel.sim.server.event_loop import SimulatedLoop, SimulatedThreads
from semel.sim.world.scheduler import Scheduler
from semel.types import TopicPartition

SYNC_MS = 5
NEVER_MS = 60_000
GROUP = "group g"


class Log:
    """A partition that notes its syncs."""

    owes_snapshot = False
    has_unseen = True

    def __init__(self, note: Callable[[str], None]) -> None:
        self.name = TopicPartition("t", 0)
        self._note = note

    def sync(self) -> None:
        self._note("synced")

    def write_snapshot(self) -> None:
        raise AssertionError("none is owed")


class World:
    def __init__(self) -> None:
        self.scheduler = Scheduler(start_ms=0)
        self.loop = SimulatedLoop(self.scheduler.after, lambda: self.scheduler.now_ms)
        self.said: list[str] = []
        self.log = Log(self.say)
        self.purgatory = Purgatory(self.loop)
        self.changes = Changes(self.loop, self.threads())
        commit = GroupCommit(
            self.loop, self.threads(), self.threads(), lambda _: None, lambda _: None, lambda: 0.0
        )
        self.operations = Operations(commit, self.purgatory, self.changes, self.threads())

    def threads(self) -> SimulatedThreads:
        return SimulatedThreads(self.loop, self.scheduler.after, 1, lambda: SYNC_MS, None)

    def say(self, what: str) -> None:
        self.said.append(f"{self.scheduler.now_ms} {what}")

    def begin(self, steps: Steps[Any]) -> None:
        self.loop.enter(self.operations.begin, steps, lambda answer: self.say(f"answer {answer}"))

    def after(self, delay_ms: int, happen: Callable[[], object]) -> None:
        self.scheduler.after(delay_ms, lambda: self.loop.enter(happen))

    def run(self) -> list[str]:
        self.scheduler.run(lambda: False, NEVER_MS * 2)
        return self.said


@pytest.fixture
def world() -> World:
    return World()


def test_it_waits_for_what_it_awaits_in_its_order(world: World) -> None:
    async def change() -> str:
        return await aside(lambda: "changed")

    async def steps() -> str:
        world.say("began")
        await Synced((world.log,))
        world.say(await aside(lambda: "worked"))
        world.say(await InTurn(change))
        await Synced((world.log,))
        return "done"

    world.begin(steps())
    assert world.run() == [
        "0 began",
        "5 synced",
        "10 worked",
        "15 changed",
        "20 synced",
        "20 answer done",
    ]


@pytest.mark.parametrize(("at_ms", "told"), [(300, "300 answer True"), (900, "700 answer False")])
def test_it_waits_for_an_event_or_for_its_deadline(world: World, at_ms: int, told: str) -> None:
    async def steps() -> bool:
        return await Happened((GROUP,), 700)

    world.begin(steps())
    world.after(100, lambda: world.purgatory.wake(["another group"]))
    world.after(at_ms, lambda: world.purgatory.wake([GROUP]))
    assert world.run() == [told]
    assert not len(world.purgatory)


def test_one_that_waits_keeps_no_change_waiting(world: World) -> None:
    """A group's join may take a minute, and a topic is made meanwhile."""

    async def joins() -> str:
        await Happened((GROUP,), NEVER_MS)
        return "joined"

    async def change() -> str:
        return "made"

    async def makes() -> str:
        return await InTurn(change)

    world.begin(joins())
    world.begin(makes())
    assert world.run() == ["0 answer made", f"{NEVER_MS} answer joined"]


def test_a_defect_ends_one_and_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> str:
        await Synced((world.log,))
        raise ZeroDivisionError("a defect")

    async def change_fails() -> str:
        raise ZeroDivisionError("another defect")

    async def asks_for_change() -> str:
        return await InTurn(change_fails)

    async def works() -> str:
        await Synced((world.log,))
        return "done"

    with caplog.at_level(logging.ERROR):
        world.begin(fails())
        world.begin(asks_for_change())
        world.begin(works())
        assert world.run() == ["0 answer None", "5 synced", "5 answer None", "10 synced", "10 answer done"]
    assert {"a request failed", "a change failed"} <= {record.message for record in caplog.records}


def test_the_error_of_work_aside_is_raised_where_it_is_awaited(world: World) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    async def steps() -> str:
        try:
            await aside(fail)
        except OSError as error:
            return str(error)
        return "nothing failed"

    world.begin(steps())
    assert world.run() == ["5 answer the disk is gone"]


def test_none_goes_on_once_the_server_is_closed(world: World) -> None:
    async def steps() -> str:
        await Synced((world.log,))
        world.say("went on")
        return "done"

    world.begin(steps())
    world.after(1, world.operations.close)
    assert world.run() == ["5 synced"]
