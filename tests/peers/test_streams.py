"""Kafka Streams counts rows exactly once (exactly_once_v2); it is killed, and started again without its state."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.peers.apache_kafka import JavaTool
from tests.peers.group_members.member import Member, until
from tests.peers.transactional_copiers.readers import confluent_kafka as read
from tests.peers.transactional_copiers.server import Onlooker, Server

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM: Final = Path(__file__).with_name("streams") / "Count.java"
PARTITIONS: Final = 3
ROWS: Final = 100  # of a partition, at a time
DIVISOR: Final = 7
# Each count is written once, so those of one rest go up by one.
WANTED: Final = {
    rest: list(range(1, PARTITIONS * len(range(rest, 3 * ROWS, DIVISOR)) + 1)) for rest in range(DIVISOR)
}


class Counter(Member):
    def __init__(self, tool: JavaTool, *arguments: str) -> None:
        self.counted = 0
        super().__init__(tool.command(str(PROGRAM), *arguments), _read)


def _read(counter: Member, line: str) -> None:
    assert isinstance(counter, Counter)
    if line.startswith("{"):
        counter.counted = json.loads(line)["counted"]


def test_counts_are_exact(server: Server, kafka_streams: JavaTool, tmp_path: Path) -> None:
    source, target, group = "rows", "counts", "counter"
    onlooker = Onlooker(server.bootstrap, PARTITIONS)
    onlooker.make(source, target)
    onlooker.write(source, 0, ROWS)
    counters: list[Counter] = []
    with ExitStack() as stack:

        def started() -> Counter:
            folder = tmp_path / str(len(counters))
            counters.append(Counter(kafka_streams, server.bootstrap, source, target, group, str(folder)))
            stack.callback(counters[-1].kill)
            return counters[-1]

        dies = started()
        until(lambda: dies.counted == PARTITIONS * ROWS, counters, "all is counted")
        onlooker.write(source, ROWS, 2 * ROWS)
        until(lambda: dies.counted > PARTITIONS * ROWS, counters, "it goes on")
        dies.kill()
        started()
        onlooker.write(source, 2 * ROWS, 3 * ROWS)
        until(lambda: counts(server, target) == WANTED, counters, "each row is counted once")
    assert onlooker.committed(group, source) == dict.fromkeys(range(PARTITIONS), 3 * ROWS)


def counts(server: Server, target: str) -> dict[int, list[int]]:
    """Of each rest, in the order in which they were written."""
    found: dict[int, list[int]] = {rest: [] for rest in range(DIVISOR)}
    for rows in read(server.bootstrap, target, PARTITIONS, True).values():
        for _, told in rows:
            rest, count = map(int, told.split("="))
            found[rest].append(count)
    return found
