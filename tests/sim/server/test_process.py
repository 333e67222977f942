"""The shell in simulated time: requests of one connection take effect in their order, changes one after the other."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.peers.same_as_kafka import asking
from tests.peers.same_as_kafka.wire import decode_answer, encode_request

from semel.config import ServerSettings
from semel.server.broker import Broker
from semel.server.storage.aside import aside, at_once
from semel.server.storage.storage import Storage
from semel.sim.server.process import ServerProcess
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.network import Link, Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.wire.frames import INT32


class Nobody:
    """At the far end of the link."""

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        raise AssertionError("nothing goes by the network")

    def link_closed(self, link: Link) -> None:
        pass


class Answered(Link):
    """The server's side of a connection: what it sends is kept."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, "s1", Nobody())
        self._sent = b""

    def send(self, frame: bytes) -> None:
        self._sent += frame

    @property
    def answers(self) -> list[bytes]:
        answers, at = [], 0
        while at < len(self._sent):
            start = at + INT32.size
            at = start + INT32.unpack_from(self._sent, at)[0]
            answers.append(self._sent[start:at])
        return answers


def process_of(seed: int, scheduler: Scheduler) -> ServerProcess:
    """With one topic."""
    counts, random = Counts(), Random(seed)
    mount = Disk(Random(seed), Trace(scheduler), counts, lambda: NO_FAULTS).mount()
    storage = Storage.open(Path("/data"), mount, now_ms=0)
    at_once(storage.create_topic("events", 1, now_ms=0))
    return ServerProcess(
        Broker(ServerSettings(), storage),
        mount,
        random,
        counts,
        lambda: NO_FAULTS,
        lambda: scheduler.now_ms,
        lambda partitions: None,
        scheduler.after,
        lambda: scheduler.now_ms,
    )


def link_of(seed: int, scheduler: Scheduler) -> Answered:
    network = Network(scheduler, Random(seed), Random(seed), Trace(scheduler), Counts(), lambda: NO_FAULTS)
    return Answered(network)


def test_a_long_line_of_changes_is_run_one_after_the_other() -> None:
    """While one of them waits for the disk, thousands may come that need not."""
    scheduler, done = Scheduler(), list[int]()

    async def change(number: int) -> None:
        if number == 0:
            await aside(lambda: None)
        done.append(number)

    process = process_of(0, scheduler)
    for number in range(2 * sys.getrecursionlimit()):
        process.change(lambda _, number=number: change(number))
    assert done == []
    assert scheduler.run(lambda: len(done) == 2 * sys.getrecursionlimit(), scheduler.now_ms + 1_000)
    assert done == sorted(done)


@pytest.mark.parametrize("seed", range(20))
def test_each_sees_what_those_before_it_did(seed: int) -> None:
    scheduler, random = (
        Scheduler(start_ms=time.time_ns() // 1_000_000),
        Random(seed),
    )  # rows say when they were made
    process, link = process_of(seed, scheduler), link_of(seed, scheduler)
    requests = [
        asking.fetch("events", 100, wait_ms=0),  # a first good one, so that others may come together
        asking.produce("events", b"a", b"b"),
        asking.produce("events", b"c"),
        asking.list_offsets("events", asking.LATEST),
        asking.delete_records("events", 2),
        asking.list_offsets("events", asking.EARLIEST),
        asking.create("made"),
        asking.produce("made", b"d", acks=1),
        asking.list_offsets("made", asking.LATEST),
    ]
    unanswered = encode_request(*asking.produce("made", b"e", acks=0))
    last = asking.list_offsets("made", asking.LATEST)
    sent = b"".join(encode_request(*one) for one in requests) + unanswered + encode_request(*last)
    middle = random.randrange(len(sent))
    scheduler.after(1, lambda: process.bytes_arrived(link, sent[:middle]))
    scheduler.after(random.randint(1, 9), lambda: process.bytes_arrived(link, sent[middle:]))
    done = [*requests, last]
    assert scheduler.run(lambda: len(link.answers) == len(done), scheduler.now_ms + 10_000)
    answers: list[Any] = [
        decode_answer(*one[:2], frame) for one, frame in zip(done, link.answers, strict=True)
    ]
    assert [asking.offset(answers[n]) for n in (3, 5, 8, 9)] == [3, 2, 1, 2]


def test_much_at_once_leaves_a_file_for_a_network_without_sockets() -> None:
    scheduler = Scheduler(start_ms=time.time_ns() // 1_000_000)
    process, link = process_of(0, scheduler), link_of(0, scheduler)
    requests = [
        asking.list_offsets("events", asking.LATEST),  # a client's first may not be long
        asking.produce("events", bytes(300_000)),
        asking.fetch("events", 0),
    ]
    sent = b"".join(encode_request(*one) for one in requests)
    scheduler.after(1, lambda: process.bytes_arrived(link, sent))
    assert scheduler.run(lambda: len(link.answers) == len(requests), scheduler.now_ms + 10_000)
    assert len(link.answers[-1]) > 300_000
