"""What one turn of the loop brings is appended together, and nobody hears of anybody else's."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.server.test_plain_produce import NOW_MS, Asked, Server, frame_of

from semel.server import turn as turns
from semel.server.bounded_log import BoundedLog
from semel.server.handlers.plain_produce import Plain
from semel.server.outcome import Handled
from semel.server.router import plain_at_head
from semel.server.storage.filesystem import OsFile
from semel.server.turn import Turn
from semel.wire import produce

SCRATCH_BYTES = 1_000


class Loop:
    """Turn after turn, when asked."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.ready.append(lambda: callback(*args))

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        raise AssertionError("nothing here waits")

    def run(self) -> None:
        while self.ready:
            self.ready.popleft()()


class Client:
    """A connection that keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.peer_host = name
        self.told: list[Handled | None] = []

    def appended(self, handled: Handled | None) -> None:
        self.told.append(handled)


class World:
    def __init__(self, *, durable: bool = False) -> None:
        self.server = Server(durable)
        self.loop = Loop()
        lines = BoundedLog(logging.getLogger("turn"), self.loop.time)
        self.turn = Turn(self.server.broker, self.loop, lambda: NOW_MS, lines, SCRATCH_BYTES)

    def plain(self, topic: str, partition: int, producer_id: int, sequence: int = 0) -> list[Plain]:
        asked = Asked(9, topic, partition, producer_id, 0, sequence, 1, -1, None)
        return plain_at_head(self.server.broker, [memoryview(frame_of(asked, producer_id, {}))])

    def results(self, handled: Handled | None) -> list[tuple[int, int]]:
        """Error code and base offset of each request."""
        assert handled is not None
        answers = self.server.answers_of(handled)
        assert isinstance(answers, bytes)
        found, at = [], 0
        while at < len(answers):
            end = at + 4 + int.from_bytes(answers[at : at + 4], "big")
            (result,), _ = produce.decode_response(9, memoryview(answers)[at + 9 : end])
            found.append((result.error_code, result.base_offset))
            at = end
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.server.close()


def test_requests_of_several_connections_are_one_write_of_a_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[tuple[int, int]] = []
    pwritev = OsFile.pwritev

    def counted(self: OsFile, parts: Any, position: int) -> int:
        writes.append((position, len(parts)))
        return pwritev(self, parts, position)

    monkeypatch.setattr(OsFile, "pwritev", counted)
    clients = [Client(f"client {number}") for number in range(3)]
    for number, client in enumerate(clients):
        world.turn.join(client, world.plain("t", 0, number))
    assert not writes and not any(client.told for client in clients)
    world.loop.run()
    assert writes == [(0, 1), (0, 3)], "the checkpoint of its epoch comes with a partition's first batch"
    assert [world.results(client.told[0]) for client in clients] == [[(0, 0)], [(0, 1)], [(0, 2)]]


@pytest.mark.parametrize("durable", [False, True])
def test_it_is_open_where_no_answer_waits_for_a_sync(durable: bool) -> None:
    made = World(durable=durable)
    assert made.turn.is_open is not durable
    made.server.close()


def test_one_connection_that_joins_twice_is_told_once_and_in_its_order(world: World) -> None:
    one, other = Client("one"), Client("other")
    world.turn.join(one, world.plain("t", 0, 1))
    world.turn.join(other, world.plain("t", 0, 2))
    world.turn.join(one, world.plain("t", 0, 1, sequence=1))
    world.loop.run()
    assert world.results(one.told[0]) == [(0, 0), (0, 1)]
    assert world.results(other.told[0]) == [(0, 2)]
    assert len(one.told) == 1


def test_what_is_refused_of_one_is_stored_of_the_others(world: World) -> None:
    good, bad = Client("good"), Client("bad")
    world.turn.join(bad, world.plain("t", 9, 1))
    world.turn.join(good, world.plain("t", 0, 2))
    world.loop.run()
    assert world.results(bad.told[0]) == [(3, -1)]
    assert world.results(good.told[0]) == [(0, 0)]


def test_a_defect_ends_their_connections_and_no_later_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Client("one"), Client("other")
    with monkeypatch.context() as broken:
        broken.setattr(turns, "handle_together", lambda *_: 1 / 0)
        world.turn.join(one, world.plain("t", 0, 1))
        world.turn.join(other, world.plain("t", 0, 2))
        world.loop.run()
    assert one.told == other.told == [None]
    assert "produce requests of one, other failed" in caplog.text
    world.turn.join(one, world.plain("t", 0, 1))
    world.loop.run()
    assert world.results(one.told[1]) == [(0, 0)]


def test_what_has_joined_is_not_read_over(world: World) -> None:
    turn = world.turn
    turn.buffer()[:3] = b"one"
    kept = turn.read(3)
    turn.join(Client("one"), world.plain("t", 0, 1))
    turn.buffer()[:3] = b"two"
    assert bytes(turn.read(3)) == b"two"  # of which nothing joins
    turn.buffer()[:5] = b"three"
    assert bytes(turn.read(5)) == b"three"
    assert bytes(kept) == b"one"
    assert len(turn.buffer()) == SCRATCH_BYTES - 3
    world.loop.run()
    assert len(turn.buffer()) == SCRATCH_BYTES


def test_a_turn_ends_early_where_no_room_is_left_to_read(world: World) -> None:
    client = Client("one")
    world.turn.buffer()
    world.turn.read(SCRATCH_BYTES // 2 + 1)
    world.turn.join(client, world.plain("t", 0, 1))
    assert len(world.turn.buffer()) == SCRATCH_BYTES
    assert world.results(client.told[0]) == [(0, 0)]
    world.loop.run()
    assert len(client.told) == 1
