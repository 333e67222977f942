"""The members of a group are killed, and its server, while a writer goes on.

The law: each row is read by somebody; a committed position says that all before it was read, and never goes back; in
the end the members that are left share all partitions. Rounds take turns at the clients, and mix them; some members are
static.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.loops.member import CLIENTS, GROUP, SESSION_MS, TOPIC
from tests.loops.rounds import RoundResult, create_topic, read_back, written

import semel

PARTITIONS = 6
MEMBERS = 3
KILLS = (2, 4)
ROUND_S = (4.0, 7.0)
SETTLE_S = 60.0
ROWS_A_SECOND = 400
_START_S = 20.0


@dataclass(slots=True)
class Seen:
    """What an onlooker saw of the committed positions."""

    positions: dict[int, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)


class Crowd:
    """The members of one round: each in a process of its own."""

    def __init__(self, bootstrap: str, folder: Path, dice: random.Random) -> None:
        self._bootstrap, self._folder, self._dice = bootstrap, folder, dice
        self._clients = [dice.choice(sorted(CLIENTS)) for _ in range(MEMBERS)]
        self._instances = [f"static-{number}" if dice.random() < 0.3 else None for number in range(MEMBERS)]
        self._lives = 0
        self._logs = [folder] * MEMBERS
        self._processes: list[subprocess.Popen[str]] = [self._start(number) for number in range(MEMBERS)]

    def _start(self, number: int) -> subprocess.Popen[str]:
        self._lives += 1
        name = f"member-{number}-{self._lives}"
        command = [sys.executable, "-m", "tests.loops.member", self._bootstrap, self._clients[number], name]
        command += [str(self._folder / name)]
        instance = self._instances[number]
        self._logs[number] = self._folder / f"{name}.log"
        with self._logs[number].open("w") as errors:
            process = subprocess.Popen(
                command + ([instance] if instance else []), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert process.stdout is not None
        assert process.stdout.readline() == "joining\n", self._logs[number].read_text()
        return process

    def kill_one(self) -> None:
        """One goes without a word, and comes back."""
        number = self._dice.randrange(MEMBERS)
        self._processes[number].kill()
        self._end(self._processes[number])
        self._processes[number] = self._start(number)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_START_S)
            except subprocess.TimeoutExpired:
                process.kill()
            self._end(process)

    def ended(self) -> list[str]:
        """What members that are gone though nobody ended them have said last."""
        return [
            f"{path.name}: {path.read_text(errors='replace')[-2_000:]}"
            for process, path in zip(self._processes, self._logs, strict=True)
            if process.poll() is not None
        ]

    def rows(self) -> dict[int, dict[int, int]]:
        """All that any of them has read: partition -> offset -> row. A last line may be cut short."""
        found: dict[int, dict[int, int]] = {number: {} for number in range(PARTITIONS)}
        for path in self._folder.glob("member-*[0-9]"):
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    number, offset, row = map(int, line.split())
                    found[number][offset] = row
        return found

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def group_round(dice: random.Random) -> RoundResult:
    """One life of a group."""
    lasts_s = dice.uniform(*ROUND_S)
    moments_s = sorted(dice.uniform(0.5, lasts_s) for _ in range(dice.randint(*KILLS)))
    seen = Seen()
    with (
        tempfile.TemporaryDirectory() as folder,
        semel.LocalLog(Path(folder) / "log", group_min_session_timeout_ms=SESSION_MS) as log,
    ):
        create_topic(log.bootstrap, TOPIC, PARTITIONS)
        crowd = Crowd(log.bootstrap, Path(folder), dice)
        try:
            with (
                written(log.bootstrap, TOPIC, PARTITIONS, ROWS_A_SECOND) as rows,
                _watched(log.bootstrap, seen),
            ):
                started_s = time.monotonic()
                for moment_s in moments_s:
                    time.sleep(max(0.0, started_s + moment_s - time.monotonic()))
                    if dice.random() < 0.5:
                        log.crash()
                        log.restart()
                    else:
                        crowd.kill_one()
                time.sleep(max(0.0, started_s + lasts_s - time.monotonic()))
            stored = read_back(log.bootstrap, TOPIC, PARTITIONS)
            found = seen.breaches + _settle(log.bootstrap, crowd, stored, seen)
        finally:
            crowd.stop()
    return RoundResult(rows=rows[0], kills=len(moments_s), breaches=tuple(found))


def _settle(bootstrap: str, crowd: Crowd, stored: dict[int, list[tuple[int, int]]], seen: Seen) -> list[str]:
    """Wait until the members have read everything and committed it; what breaks the law."""
    ends = {number: rows[-1][0] + 1 if rows else 0 for number, rows in stored.items()}
    give_up_s = time.monotonic() + SETTLE_S
    positions: dict[int, int] = {}
    while time.monotonic() < give_up_s:
        positions = _committed(bootstrap)
        if all(positions.get(number, 0) == end for number, end in ends.items()):
            break
        time.sleep(0.1)
    found = [
        f"partition {number}: committed {positions.get(number)} of {end} within {SETTLE_S:.0f} s"
        for number, end in ends.items()
        if positions.get(number, 0) != end
    ]
    read = crowd.rows()
    for number, rows in stored.items():
        behind = [offset for offset, _ in rows if offset < positions.get(number, 0)]
        missing = [offset for offset in behind if offset not in read[number]]
        if missing:
            found.append(
                f"partition {number}: {positions[number]} committed, offset {missing[0]} was never read"
            )
        found += [
            f"partition {number}: offset {offset} was read as {read[number][offset]}, {row} is stored"
            for offset, row in rows
            if read[number].get(offset, row) != row
        ][:1]
    return found + _look_at_the_group(bootstrap) + crowd.ended()


def _look_at_the_group(bootstrap: str) -> list[str]:
    """Whether the members that are there share all partitions, each of them one member's."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    give_up_s = time.monotonic() + SETTLE_S
    state = ""
    while time.monotonic() < give_up_s:
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(20)
        owned = sorted(
            one.partition for member in described.members for one in member.assignment.topic_partitions
        )
        state = f"{described.state}, {len(described.members)} members own {owned}"
        if owned == list(range(PARTITIONS)) and len(described.members) == MEMBERS:
            return []
        time.sleep(0.2)
    return [f"the group did not come to rest: {state}"]


@contextmanager
def _watched(bootstrap: str, seen: Seen) -> Iterator[None]:
    """An onlooker beside it: committed positions never go back."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            for number, position in _committed(bootstrap).items():
                if position < seen.positions.get(number, 0):
                    seen.breaches.append(
                        f"partition {number}: the committed position went from {seen.positions[number]} "
                        f"back to {position}"
                    )
                seen.positions[number] = position

    watcher = threading.Thread(target=watch, name="onlooker")
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _committed(bootstrap: str) -> dict[int, int]:
    """The group's positions, as anybody may ask for them; none while nobody answers."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        return {
            one.partition: one.offset for one in consumer.committed(asked, timeout=2.0) if one.offset >= 0
        }
    except KafkaException:
        return {}
    finally:
        consumer.close()
