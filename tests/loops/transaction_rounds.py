"""Clients copy a topic into three in transactions, with their group's offsets; they are killed, and their server.

The law: for who reads what is committed, each row is in each of the three topics once and in order; a transaction is in
all of them or in none, by the name that its rows carry; one that was told to be committed is there, and one that was
told to be aborted is not. A committed position never goes back, and in the end it is behind the last row. Clients come
back under the transactional ids that they had, some of them while those that had them before still live.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.loops.rounds import RoundResult, breaches, written
from tests.loops.transactor import CLIENTS, IS_FENCED, PARTITIONS, group, source, targets
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars
from tests.peers.transactional_copiers.readers import Rows
from tests.peers.transactional_copiers.readers import confluent_kafka as read
from tests.peers.transactional_copiers.server import Onlooker, Server

import semel

COPIERS: Final = 2
KILLS: Final = (3, 5)
ROUND_S: Final = (5.0, 9.0)
SETTLE_S: Final = 60.0
ROWS_A_SECOND: Final = 400
REVIVED_MAX: Final = 20  # in a round, of those that end by themselves


@dataclass(slots=True)
class Seen:
    """What an onlooker saw of the committed positions."""

    positions: dict[int, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)


class Crowd:
    """The copiers of one round: each in a process of its own, under a transactional id that is its place's."""

    def __init__(self, bootstrap: str, folder: Path, number: int, dice: random.Random) -> None:
        self._bootstrap, self._folder, self._number, self._dice = bootstrap, folder, number, dice
        self._lives = self.revived = self.fenced = 0
        self._all: list[subprocess.Popen[bytes]] = []
        self._logs: dict[int, Path] = {}
        self._processes = [self._start(place) for place in range(COPIERS)]

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        self._lives += 1
        name = f"{place}-{self._lives}"
        client = self._dice.choice(sorted(CLIENTS))
        command = [sys.executable, "-m", "tests.loops.transactor", self._bootstrap, client]
        command += [f"id-{self._number}-{place}", name, str(self._number), str(self._folder / name)]
        log = self._folder / f"{name}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(command, stderr=errors)
        self._all.append(process)
        self._logs[process.pid] = log
        return process

    def kill_one(self) -> None:
        """One goes without a word, and comes back."""
        place = self._dice.randrange(COPIERS)
        self._processes[place].kill()
        self._processes[place].wait()
        self._processes[place] = self._start(place)

    def double_one(self) -> None:
        """One comes again while it is there."""
        place = self._dice.randrange(COPIERS)
        self._processes[place] = self._start(place)

    def revive(self) -> None:
        """Who has ended by itself comes back, as who is watched over does."""
        for place, process in enumerate(self._processes):
            if process.poll() is not None and self.revived < REVIVED_MAX:
                self.revived += 1
                self._processes[place] = self._start(place)

    def stop(self) -> None:
        for process in self._all:
            self.fenced += process.poll() == IS_FENCED
            process.kill()
            process.wait()

    def told(self) -> dict[str, set[str]]:
        """Transactions by what they have come to, as far as a copier knew. A last line may be cut short."""
        found: dict[str, set[str]] = {"committed": set(), "aborted": set()}
        for path in self._folder.glob("*-*[0-9]"):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    outcome, name = line.split()
                    found[outcome].add(name)
        return found

    def last_words(self) -> str:
        return "; ".join(
            f"{log.name}: {log.read_text(errors='replace')[-500:]}" for log in self._logs.values()
        )


class TransactionsLife:
    """One server over many rounds, each with topics, a group and transactional ids of its own."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-transactions-"))
            )
            self._server: Server = stack.enter_context(self._served())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _served(self) -> AbstractContextManager[Any]:
        if self._kind == "semel":
            return semel.LocalLog(self._folder / "log", group_min_session_timeout_ms=1)
        java, jars = find_java(), find_kafka_jars()
        assert not isinstance(java, Missing) and not isinstance(jars, Missing), f"{java} {jars}"
        settings = {
            "group.min.session.timeout.ms": "1",
            # What was killed is taken back when its session has ended.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
        }
        return ApacheKafka(java, jars, self._folder / "log", settings=settings)

    def round(self, number: int, dice: random.Random) -> RoundResult:
        """One group's life."""
        lasts_s = dice.uniform(*ROUND_S)
        moments_s = sorted(dice.uniform(0.5, lasts_s) for _ in range(dice.randint(*KILLS)))
        folder = self._folder / f"round-{number}"
        folder.mkdir()
        bootstrap = self._server.bootstrap
        onlooker, seen = Onlooker(bootstrap, PARTITIONS), Seen()
        onlooker.make(source(number), *targets(number))
        crowd = Crowd(bootstrap, folder, number, dice)
        done = []
        try:
            with (
                written(bootstrap, source(number), PARTITIONS, ROWS_A_SECOND) as rows,
                _watched(onlooker, number, seen),
            ):
                started_s = time.monotonic()
                for moment_s in [*moments_s, lasts_s]:
                    while time.monotonic() < started_s + moment_s:
                        crowd.revive()
                        time.sleep(0.05)
                    if moment_s < lasts_s:
                        done.append(self._do_harm(crowd, dice))
            ends = {number: len(range(number, rows[0], PARTITIONS)) for number in range(PARTITIONS)}
            found = seen.breaches + _settle(onlooker, crowd, number, ends)
        finally:
            crowd.stop()
        kept, aborted_rows = self._read(number)
        found += judge(kept, rows[0], crowd.told())
        if found:
            found.append(crowd.last_words())
        else:
            onlooker.remove(source(number), *targets(number))  # each start reads all that is there
        told = (
            f"{', '.join(done)}; {aborted_rows} rows aborted, {crowd.fenced} fenced, {crowd.revived} revived"
        )
        return RoundResult(rows[0], len(moments_s), tuple(found), told)

    def _do_harm(self, crowd: Crowd, dice: random.Random) -> str:
        what = dice.choices(["server", "copier", "twin"], [0.35, 0.4, 0.25])[0]
        if what == "server":
            self._server.crash()
            self._server.restart()
        elif what == "copier":
            crowd.kill_one()
        else:
            crowd.double_one()
        return what

    def _read(self, number: int) -> tuple[dict[str, Rows], int]:
        """What each target has for who reads what is committed, and how many rows it has besides."""
        kept = {each: read(self._server.bootstrap, each, PARTITIONS, True) for each in targets(number)}
        aborted = 0
        for topic, committed in kept.items():
            every = read(self._server.bootstrap, topic, PARTITIONS, False)
            aborted += sum(map(len, every.values())) - sum(map(len, committed.values()))
        return kept, aborted


def _settle(onlooker: Onlooker, crowd: Crowd, number: int, ends: dict[int, int]) -> list[str]:
    """Wait until all rows are copied and no transaction is open; what breaks the law."""
    give_up_s = time.monotonic() + SETTLE_S
    positions: dict[int, int] = {}
    unsettled = targets(number)
    while time.monotonic() < give_up_s:
        crowd.revive()
        positions = onlooker.committed(group(number), source(number))
        if positions == ends:
            unsettled = [topic for topic in unsettled if not onlooker.is_settled(topic)]
            if not unsettled:
                return []
        time.sleep(0.1)
    return [f"within {SETTLE_S:.0f} s {positions} of {ends} was committed, and open in {unsettled}"]


def judge(kept: Mapping[str, Rows], rows: int, told: Mapping[str, set[str]]) -> list[str]:
    """What breaks the law in what can be read of each topic, by what the copiers were told."""
    found: list[str] = []
    expected = {partition: range(partition, rows, PARTITIONS) for partition in range(PARTITIONS)}
    for topic, partitions in kept.items():
        stored = {
            partition: [(offset, int(value.split()[0])) for offset, value in read]
            for partition, read in partitions.items()
        }
        found += [f"{topic}: {breach}" for breach in breaches(stored, expected=expected)]
    values = {
        topic: {partition: [value for _, value in read] for partition, read in partitions.items()}
        for topic, partitions in kept.items()
    }
    first, *others = values
    found += [
        f"partition {partition}: other transactions are in {topic} than in {first}"
        for topic in others
        for partition in expected
        if values[topic][partition] != values[first][partition]
    ]
    there = {
        value.split()[1] for partitions in values.values() for read in partitions.values() for value in read
    }
    lost, raised = told["committed"] - there, told["aborted"] & there
    if lost:
        found.append(f"told to be committed, and not there: {sorted(lost)[:5]}")
    if raised:
        found.append(f"told to be aborted, and there: {sorted(raised)[:5]}")
    return found


@contextmanager
def _watched(onlooker: Onlooker, number: int, seen: Seen) -> Iterator[None]:
    """An onlooker beside it: committed positions never go back."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            for partition, position in onlooker.committed(group(number), source(number)).items():
                if position < seen.positions.get(partition, 0):
                    seen.breaches.append(
                        f"partition {partition}: the committed position went from {seen.positions[partition]} "
                        f"back to {position}"
                    )
                seen.positions[partition] = position

    watcher = threading.Thread(target=watch, name="onlooker")
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
