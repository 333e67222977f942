"""What the log held when: the end offsets of both topics, sampled while the story is played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from semel.client.blocking import Cluster
from semel.demo.child import Child
from semel.demo.lives import Life, Lives, Part
from semel.errors import SemelError
from semel.types import LATEST_TIMESTAMP, TopicPartition

SAMPLE_EVERY_S: Final = 0.03
_WATCH_TIMEOUT_MS: Final = 5_000
_SAMPLES_MAX: Final = 50_000  # half an hour


@dataclass(frozen=True, slots=True)
class Sample:
    """Offsets at one moment; markers count, so the output's may be a few above its rows."""

    at_s: float
    input_rows: int
    output_rows: int


@dataclass(slots=True)
class Timeline:
    """Samples in the background from ``__enter__`` to ``__exit__``; a server that is down gives no sample."""

    bootstrap: str
    input_topic: str
    output_topic: str
    partition_count: int
    watcher: Callable[[Sample], None] | None = None  # is shown every sample, in the sampling thread
    samples: list[Sample] = field(default_factory=list)
    lives: Lives = field(default_factory=Lives)
    output_ends: dict[TopicPartition, int] = field(default_factory=dict)  # as of the last sample
    began_s: float = field(default_factory=time.monotonic)  # the story's 0, of the monotonic clock
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _defect: BaseException | None = None

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
        return time.monotonic() - self.began_s

    @property
    def last(self) -> Sample:
        return self.samples[-1] if self.samples else Sample(0.0, 0, 0)

    def begins(self, part: Part) -> None:
        self.lives.begin(part, self.now_s)

    def ends(self, part: Part, *, killed: bool = False) -> Life:
        return self.lives.end(part, self.now_s, killed=killed)

    def wait_for(self, reached: Callable[[Sample, Sample], bool], child: Child, silence_s_max: float) -> bool:
        """Until ``reached(previous, last)``; False when the child ends first.

        :class:`SemelError` when no row has moved for ``silence_s_max``, however long it takes in all: on a
        busy machine a Spark driver alone may need a minute to start.
        """
        moved_at = time.monotonic()
        seen = len(self.samples)
        while True:
            while seen < len(self.samples):
                seen += 1
                before, last = self.samples[max(seen - 2, 0)], self.samples[seen - 1]
                if (before.input_rows, before.output_rows) != (last.input_rows, last.output_rows):
                    moved_at = time.monotonic()
                if reached(before, last):
                    return True
            if not child.is_running:
                return False
            if self._defect is not None:
                raise SemelError(f"the demo lost sight of the log: {self._defect!r}") from self._defect
            if time.monotonic() - moved_at > silence_s_max:
                raise SemelError(
                    f"the demo got stuck: under the {child.name} no row moved for {silence_s_max:.0f} s; "
                    f"what it said is in {child.stderr_path}"
                )
            self._stop.wait(SAMPLE_EVERY_S / 3)

    def wait_for_end_of(self, child: Child, silence_s_max: float) -> None:
        """Until the child has ended, well or not."""
        self.wait_for(lambda *_: False, child, silence_s_max)

    def _watch(self) -> None:
        try:
            with Cluster(
                self.bootstrap, client_id="semel-demo-watch", request_timeout_ms=_WATCH_TIMEOUT_MS
            ) as cluster:
                while not self._stop.wait(SAMPLE_EVERY_S) and len(self.samples) < _SAMPLES_MAX:
                    try:
                        self._sample(cluster)
                    except SemelError:
                        continue  # the server is being killed: that is the point
        except BaseException as defect:  # a thread that died in silence would look like a stuck pipeline
            self._defect = defect

    def _sample(self, cluster: Cluster) -> None:
        numbers = range(self.partition_count)
        partitions = [TopicPartition(t, n) for t in (self.input_topic, self.output_topic) for n in numbers]
        listed = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        ends = {partition: at.offset for partition, at in listed.items()}
        self.output_ends = {p: end for p, end in ends.items() if p.topic == self.output_topic}
        output_rows = sum(self.output_ends.values())
        self.samples.append(Sample(self.now_s, sum(ends.values()) - output_rows, output_rows))
        if self.watcher is not None:
            self.watcher(self.samples[-1])
