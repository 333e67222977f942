"""Who writes the rows of a flow's sources: a plain producer, some of whose rows come twice, or not at all.

What lies in the topics is the input, whatever was sent. Some values are no rows, and some rows have no user.
"""

from __future__ import annotations

import json
from random import Random
from typing import Final

from semel.errors import SemelError
from semel.record.batch import Record, encode_batch
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.flows.story import FlowStory
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition

REQUEST_TIMEOUT_MS: Final = 5_000
ROWS_AT_ONCE_MAX: Final = 4
ROWS_MAX: Final = 200  # a healed world has to come to their end
LATE_MS_MAX: Final = 40_000  # behind which no copy of a request comes any more
NONSENSE: Final = 0.04
NO_USER: Final = 0.04


class Feeder:
    """One process for the whole history; it is never killed, but its requests are lost like all others."""

    def __init__(self, story: FlowStory, random: Random, around: Surroundings) -> None:
        self.is_busy = False
        self._story = story
        self._random = random
        self._around = around
        self._process = Process(around.scheduler)
        session = Session(f"{story.name}.feeder", self._process, around.network)
        self._cluster = SimulatedCluster(self._process, session, REQUEST_TIMEOUT_MS)
        self._rows = 0
        self._wanted = True
        self._later()

    def stop(self) -> None:
        """No more rows, once those under way have landed or have not."""
        self._wanted = False
        if not self.is_busy:
            self._close_later()

    def _later(self) -> None:
        self._process.after(self._random.randint(1, 2 * self._story.row_gap_ms), self._send)

    def _send(self) -> None:
        if not self._wanted or self._rows >= ROWS_MAX:
            return
        topic = self._random.choice(self._story.doing.sources)
        tp = TopicPartition(topic, self._random.randrange(self._story.source_partitions))
        values = [self._value() for _ in range(self._random.randint(1, ROWS_AT_ONCE_MAX))]
        self._around.counts.operations += len(values)
        self.is_busy = True
        batch = encode_batch([Record(0, self._process.time_of_day_ms, None, value) for value in values])
        drive(self._cluster.produce({tp: batch}), self._done)

    def _value(self) -> bytes:
        self._rows += 1
        if self._random.random() < NONSENSE:
            return b"{nonsense %d" % self._rows
        user = None if self._random.random() < NO_USER else f"u{self._random.randrange(self._story.users)}"
        second = max(0, self._rows // 4 - self._random.choice((0, 0, 0, 2, 9)))  # some rows are late
        at = f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        return json.dumps({"user": user, "id": self._rows, "at": at}).encode()

    def _done(self, result: object, error: Exception | None) -> None:
        self.is_busy = False
        if error is not None and not isinstance(error, SemelError):
            raise error
        if self._wanted:
            self._later()
        else:
            self._close_later()

    def _close_later(self) -> None:
        def close() -> None:
            self._story.is_closed = True

        self._process.after(LATE_MS_MAX, close)
