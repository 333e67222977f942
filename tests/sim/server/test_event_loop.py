"""The event loop and the threads of a simulated server."""

from __future__ import annotations

from random import Random

from semel.sim.server.event_loop import Meanwhile, SimulatedLoop, SimulatedThreads
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.network import _NOBODY as NOBODY
from semel.sim.world.network import Link, Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace


class World:
    def __init__(self, count: int = 1) -> None:
        self.scheduler = Scheduler(start_ms=0)
        self.said: list[str] = []
        self.loop = SimulatedLoop(self.scheduler.after, lambda: self.scheduler.now_ms)
        self.meanwhile = Meanwhile(self.loop, lambda link, data: self.say(f"{link.name} {data.decode()}"))
        self.network = Network(
            self.scheduler, Random(0), Random(0), Trace(self.scheduler), Counts(), lambda: NO_FAULTS
        )
        self.threads = SimulatedThreads(self.loop, self.scheduler.after, count, lambda: 10, self.meanwhile)

    def say(self, what: str) -> None:
        self.said.append(f"{self.scheduler.now_ms} {what}")

    def run(self, until_ms: int = 1_000) -> list[str]:
        self.scheduler.run(lambda: False, until_ms)
        return self.said


def test_turns_and_timers() -> None:
    world = World()

    def first() -> None:
        world.loop.call_soon(world.say, "next turn")
        world.loop.call_later(0.005, world.say, "later")
        world.loop.call_later(0.004, world.say, "never").cancel()
        world.say("this turn")

    world.loop.enter(first)
    assert world.run() == ["0 this turn", "0 next turn", "5 later"]
    assert world.loop.time() == 1.0


def test_what_comes_in_a_busy_turn_comes_in_front_of_what_it_put_off() -> None:
    world = World()

    def one() -> None:
        world.loop.call_soon(world.say, "put off")
        world.say("one")

    world.loop.enter_busily(3, one)
    world.scheduler.after(2, lambda: world.loop.enter_busily(9, world.say, "other"))
    assert world.run() == ["0 one", "2 other", "3 put off"]


def test_no_more_threads_work_at_once_than_there_are() -> None:
    world = World(count=2)
    for name in ("a", "b", "c"):
        world.threads.run(lambda name=name: world.say(name), lambda name=name: world.say(f"{name} done"))  # type: ignore[misc]
    assert not world.threads.is_idle
    assert world.run() == ["10 a", "10 a done", "10 b", "10 b done", "20 c", "20 c done"]
    assert world.threads.is_idle


def test_what_arrives_while_a_thread_works_comes_inside_its_sync() -> None:
    world = World()

    def sync() -> None:
        world.say("begins")
        world.meanwhile.inside_sync()
        world.say("ends")

    world.threads.run(sync, lambda: world.say("told"))
    a, b = (Link(world.network, name, NOBODY) for name in "ab")
    world.meanwhile.arrive(a, b"at once", turn_ms=0, may_wait=False)
    world.meanwhile.arrive(a, b"held back", turn_ms=0, may_wait=True)
    world.meanwhile.arrive(a, b", and more", turn_ms=0, may_wait=False)
    world.meanwhile.arrive(b, b"behind it", turn_ms=0, may_wait=False)
    assert world.run() == [
        "0 a at once",
        "10 begins",
        "10 a held back, and more",
        "10 b behind it",
        "10 ends",
        "10 told",
    ]


def test_a_sync_of_the_loop_itself_lets_nothing_in() -> None:
    world = World()
    world.threads.run(lambda: None, lambda: None)
    world.meanwhile.arrive(Link(world.network, "a", NOBODY), b"held back", turn_ms=0, may_wait=True)
    world.loop.enter(world.meanwhile.inside_sync)
    assert world.said == []
    assert world.run() == ["10 a held back"]
