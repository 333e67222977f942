"""A Spark driver (its JVM and its Python workers) is killed in the midst of a streaming query and run again.

All rounds are one query's life: a round adds rows, runs the driver, kills it, and checks that the output so
far holds no row twice and keeps their order; the last one then runs the query to the end of its input, where
nothing may be missing.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import confluent_kafka
from tests.loops.driver import INPUT, OUTPUT
from tests.loops.rounds import RoundResult, breaches, create_topic, read_back

import semel

PARTITIONS = 2
ROWS_PER_ROUND = 8_000
KILL_AFTER_S = (0.0, 6.0)  # a first micro-batch takes some seconds, the next ones a fraction of one
START_TIMEOUT_S = 60.0
FINISH_TIMEOUT_S = 600.0  # kills fall so early that all rounds may have left their rows to the last run


class DriverLife:
    """One log, one checkpoint, one query; ``round`` kills its driver once."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        self._folder = Path(self._scratch.name)
        self._log = semel.LocalLog(self._folder / "log")
        self._rows = 0

    def __enter__(self) -> Self:
        self._log.__enter__()
        create_topic(self._log.bootstrap, INPUT, PARTITIONS)
        create_topic(self._log.bootstrap, OUTPUT, PARTITIONS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.__exit__(kind, error, trace)
        self._scratch.cleanup()

    def round(self, dice: random.Random) -> RoundResult:
        """More input, a run killed at a random moment, a check of what is there."""
        self._add_rows()
        with self._driver("until-killed") as driver:
            self._await_line(driver, "running")
            time.sleep(dice.uniform(*KILL_AFTER_S))  # the random moment itself, not a wait for a condition
        return RoundResult(rows=self._rows, kills=1, breaches=self._breaches(complete=False))

    def last_round(self, dice: random.Random) -> RoundResult:
        """A round, then the query once more, to the end of its input: every row must be there."""
        killed = self.round(dice)
        with self._driver("available-now") as driver:
            assert driver.wait(FINISH_TIMEOUT_S) == 0, self._errors()
        return RoundResult(self._rows, killed.kills, killed.breaches + self._breaches(complete=True))

    def _add_rows(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._log.bootstrap})
        for row in range(self._rows, self._rows + ROWS_PER_ROUND):
            producer.produce(INPUT, b"%d" % row, b"%d" % (row % 97), partition=row % PARTITIONS)
        assert producer.flush(30) == 0
        self._rows += ROWS_PER_ROUND

    def _breaches(self, *, complete: bool) -> tuple[str, ...]:
        # The output's partition is chosen by key: order holds per key, and a key's rows share a partition.
        stored = read_back(self._log.bootstrap, OUTPUT, PARTITIONS)
        by_key: dict[int, list[tuple[int, int]]] = {key: [] for key in range(97 * PARTITIONS)}
        for partition, entries in stored.items():
            for offset, row in entries:
                by_key[row % (97 * PARTITIONS)].append((offset * PARTITIONS + partition, row))
        expected = {key: range(key, self._rows, 97 * PARTITIONS) for key in by_key}
        return breaches(by_key, expected=expected if complete else None)

    @contextmanager
    def _driver(self, mode: str) -> Iterator[subprocess.Popen[str]]:
        """The driver in a process group of its own: the kill takes its JVM and its workers too."""
        command = [sys.executable, "-m", "tests.loops.driver", self._log.bootstrap]
        with (self._folder / "driver.err").open("w") as errors:
            driver = subprocess.Popen(
                [*command, str(self._folder / "checkpoint"), mode],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        with driver:
            try:
                yield driver
            finally:
                _kill_group(driver)

    def _await_line(self, driver: subprocess.Popen[str], line: str) -> None:
        assert driver.stdout is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while driver.stdout.readline() != f"{line}\n":
            assert driver.poll() is None and time.monotonic() < deadline_s, self._errors()

    def _errors(self) -> str:
        return (self._folder / "driver.err").read_text()[-4_000:]


def _kill_group(driver: subprocess.Popen[str]) -> None:
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
