"""What the log held when: the end offsets of both topics, sampled while the story is played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from semel.client.blocking import Cluster
from semel.errors import SemelError
from semel.types import LATEST_TIMESTAMP, TopicPartition

SAMPLE_EVERY_S: Final = 0.03
_WATCH_TIMEOUT_MS: Final = 1_000
_SAMPLES_MAX: Final = 20_000  # ten minutes


@dataclass(frozen=True, slots=True)
class Sample:
    """Offsets at one moment; markers count, so the output's may be a few above its rows."""

    at_s: float
    input_rows: int
    output_rows: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something done to the pipeline. ``is_kill`` draws it in red."""

    at_s: float
    what: str
    is_kill: bool = False


@dataclass(slots=True)
class Timeline:
    """Samples in the background from ``__enter__`` to ``__exit__``; a server that is down gives no sample."""

    bootstrap: str
    input_topic: str
    output_topic: str
    partition_count: int
    samples: list[Sample] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name="demo-timeline", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def last(self) -> Sample:
        return self.samples[-1] if self.samples else Sample(0.0, 0, 0)

    def mark(self, what: str, *, is_kill: bool = False) -> None:
        self.events.append(Event(self.now_s, what, is_kill))

    def wait_for(
        self, reached: Callable[[Sample, Sample], bool], goes_on: Callable[[], bool], timeout_s: float
    ) -> bool:
        """Until ``reached(previous, last)``; False when ``goes_on`` ends first."""
        deadline = time.monotonic() + timeout_s
        seen = len(self.samples)
        while time.monotonic() < deadline:
            while seen < len(self.samples):
                seen += 1
                if seen >= 2 and reached(self.samples[seen - 2], self.samples[seen - 1]):
                    return True
            if not goes_on():
                return False
            self._stop.wait(SAMPLE_EVERY_S / 3)
        raise SemelError(f"the demo got stuck: nothing happened for {timeout_s:.0f} s")

    def _watch(self) -> None:
        numbers = range(self.partition_count)
        partitions = [TopicPartition(t, n) for t in (self.input_topic, self.output_topic) for n in numbers]
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        with Cluster(
            self.bootstrap, client_id="semel-demo-watch", request_timeout_ms=_WATCH_TIMEOUT_MS
        ) as cluster:
            while not self._stop.wait(SAMPLE_EVERY_S) and len(self.samples) < _SAMPLES_MAX:
                try:
                    found = cluster.list_offsets(wanted)
                except SemelError:
                    continue  # the server is being killed: that is the point
                rows = {self.input_topic: 0, self.output_topic: 0}
                for partition, listed in found.items():
                    rows[partition.topic] += listed.offset
                self.samples.append(Sample(self.now_s, rows[self.input_topic], rows[self.output_topic]))
