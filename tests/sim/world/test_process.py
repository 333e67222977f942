"""What comes to a process that stands still waits in one line, whenever it comes and however often it is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from semel.sim.campaign.simulation import Simulation
from semel.sim.world.network import Link
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Scheduler
from semel.wire.frames import INT32

Come = Callable[[Callable[[], None]], None]


def come_at(scheduler: Scheduler, come: Come, after_ms: int, got: list[str], what: str) -> None:
    scheduler.after(after_ms, lambda: come(lambda: got.append(what)))


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param({"first": 50, "second": 100}, id="when the pause ends"),
        pytest.param({"first": 50, "second": 60, "third": 130}, id="within two pauses"),
        pytest.param({"first": 50, "second": 90, "third": 151}, id="after a pause that another made longer"),
    ],
)
def test_nothing_overtakes_what_waits(moments: dict[str, int]) -> None:
    scheduler = Scheduler()
    process, got = Process(scheduler), list[str]()
    for what in reversed(moments):  # planned before what waits is put off
        come_at(scheduler, process.soon, moments[what], got, what)
    process.stop_for(100)
    if len(moments) > 2:
        scheduler.after(55, lambda: process.stop_for(95))
    scheduler.run(lambda: False, scheduler.now_ms + 500)
    assert got == list(moments)


class Talker:
    """A client that sends bytes as they are, and hears only of the end of the connection."""

    def __init__(self, world: Simulation) -> None:
        self.link: Link | None = None
        self.is_closed = False
        world.network.connect(self, self._connected, lambda: None)
        world.scheduler.run(lambda: self.link is not None, world.scheduler.now_ms + 1_000)

    def _connected(self, link: Link) -> None:
        self.link = link

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        pass

    def link_closed(self, link: Link) -> None:
        self.is_closed = True


@pytest.fixture
def world() -> Simulation:
    """A server without faults or clients."""
    world = Simulation(0)
    world.server.prepare()
    world.server.start()
    return world


def test_the_bytes_of_one_connection_stay_in_order_at_the_end_of_a_pause(world: Simulation) -> None:
    server, scheduler, got = world.server, world.scheduler, []
    talker = Talker(world)
    server._process.bytes_arrived = lambda link, data: got.append(data)
    server._process.link_closed = lambda link: got.append("closed")
    far = talker.link.peer
    server.pause()
    left_ms = server._standstill.left_ms
    scheduler.after(left_ms, lambda: server.bytes_arrived(far, b"second"))
    scheduler.after(left_ms, lambda: server.link_closed(far))
    scheduler.after(50, lambda: server.bytes_arrived(far, b"first"))
    scheduler.run(lambda: False, scheduler.now_ms + left_ms + 10)
    assert got == [b"first", b"second", "closed"]


@pytest.mark.parametrize("length", [-(2**31), -5, -4, 0, 7, 64 * 1024 + 1, 2**31 - 1])
def test_a_frame_of_impossible_length_closes_its_connection(world: Simulation, length: int) -> None:
    talker = Talker(world)
    talker.link.send(INT32.pack(length))
    talker.link.send(b"which is never read")
    assert world.scheduler.run(lambda: talker.is_closed, world.scheduler.now_ms + 1_000)
    assert world.server.is_healthy
