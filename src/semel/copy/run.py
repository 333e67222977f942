"""The loop of a copy: read, say what comes next, send it; now and then look at the topics, and cut the journal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from semel.client.model import TopicMetadata
from semel.copy.groups import CopyGroups
from semel.copy.log import CopyLog
from semel.copy.plan import CopyPlan
from semel.copy.reading import SourceReader
from semel.copy.takeover import take_over
from semel.copy.topics import CopyTopics
from semel.copy.writing import Writer
from semel.core.copy.journal import Begun, Joined, Place
from semel.core.copy.pace import Pace
from semel.core.copy.tenure import Tenure
from semel.errors import BrokerError, ConfigError, ConnectionLost, DataLoss, ReplayUnprovable
from semel.spark.process import connect, this_process
from semel.types import TopicPartition

TOPICS_MAX_AGE_MS: Final = 10_000
GROUPS_EVERY_MS: Final = 5_000
AWAY_MS_MAX: Final = 60_000  # so long a server is waited for
AWAY_PAUSE_MS: Final = 500
_TOLD_EVERY_MS: Final = 500
RATE_PAUSE_MS_MAX: Final = 100  # at once, or who stops it would wait


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """What this copy of the job has done of one topic since it was started."""

    topic: str
    rows: int
    size_bytes: int
    lag: int  # offsets that the source has beyond that
    partitions: int


@dataclass(frozen=True, slots=True)
class Copied:
    """What this copy of the job has done since it was started; ``topics``: those that it copies or has copied."""

    topics: tuple[CopiedTopic, ...]
    elapsed_ms: int

    @property
    def rows(self) -> int:
        return sum(topic.rows for topic in self.topics)

    @property
    def size_bytes(self) -> int:
        return sum(topic.size_bytes for topic in self.topics)

    @property
    def lag(self) -> int:
        """Offsets that the source has beyond that."""
        return sum(topic.lag for topic in self.topics)

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in self.topics)


def run_copy(
    plan: CopyPlan,
    *,
    until_end: bool = False,
    stop: threading.Event | None = None,
    told: Callable[[Copied], None] = lambda copied: None,
) -> Copied:
    """Copy until ``stop`` is set, or with ``until_end`` to the end of what the source has now.

    Raises :class:`~semel.errors.ProducerFenced` where another copy of the job was started,
    :class:`~semel.errors.DataLoss` for rows that the source has lost, :class:`~semel.errors.ReplayUnprovable` where
    journal and destination do not fit together, :class:`~semel.errors.ConfigError` for what cannot be copied. What is
    stored stays, and whoever starts the job again goes on behind it.
    """
    stop, clock = stop or threading.Event(), this_process().clock
    whole, targets, tenure = Copied((), 0), None, Tenure()
    pace = None if plan.bytes_per_s is None else Pace(plan.bytes_per_s, clock.elapsed_ms())
    is_done, away_since_ms = False, clock.elapsed_ms()
    while not is_done:  # a run does not grow old: a log forgets the producers that write nothing
        copy = _Run(plan, told, whole, tenure, pace)
        try:
            with copy.fence_goes_first():
                copy.begin()
                away_since_ms = clock.elapsed_ms()
                if until_end and targets is None:
                    targets = copy.ends()
                is_done = copy.go(stop, targets)
        except ConnectionLost:
            away_since_ms = max(away_since_ms, copy.well_ms)
            if stop.is_set() or clock.elapsed_ms() - away_since_ms > AWAY_MS_MAX:
                raise
            clock.pause(AWAY_PAUSE_MS)
        finally:
            copy.close()
        whole = copy.copied()
    return whole


class _Run:
    """One holder of the job, from HELD on."""

    def __init__(
        self,
        plan: CopyPlan,
        told: Callable[[Copied], None],
        before: Copied,
        tenure: Tenure,
        pace: Pace | None,
    ) -> None:
        self._plan, self._told, self._before, self._pace = plan, told, before, pace
        source, destination = connect(plan.source), connect(plan.destination)
        self._destination = destination
        self._topics = CopyTopics(plan, source, destination)
        self._log = CopyLog(destination, plan, tenure)
        self._clock = this_process().clock
        self._began_ms = self._looked_ms = self._told_ms = self._clock.elapsed_ms()
        self._reader, self._writer = SourceReader(source, plan), Writer(destination, plan, self._log)
        self._places: dict[TopicPartition, Place] = {}
        self._groups, self._grouped_ms = CopyGroups(plan, source, destination), self._began_ms
        self._appended = 0
        self.well_ms = 0  # when both clusters answered last, once it holds the job

    @contextmanager
    def fence_goes_first(self) -> Iterator[None]:
        """Whoever was overtaken is told that, and not what the topics then seem to be to him."""
        try:
            yield
        except (ReplayUnprovable, DataLoss, ConfigError, BrokerError):
            self._log.look_again()
            raise

    def begin(self) -> None:
        """Hold the job, and know where each partition goes on."""
        self._topics.check_clusters()
        wanted = self._topics.wanted()
        self._places = take_over(self._log, self._plan, self._topics, self._destination)
        self._join(self._topics.check_source(wanted, self._places))
        self._join(self._topics.new_places(wanted, self._places, is_first=not self._places))
        self._read(wanted)

    def ends(self) -> dict[TopicPartition, int]:
        """What the source has now."""
        return self._reader.ends()

    def go(self, stop: threading.Event, targets: Mapping[TopicPartition, int] | None) -> bool:
        """Whether ``targets`` are reached, or it was stopped; ``False``: the job is to be taken over anew."""
        while not stop.is_set():
            if targets is not None and self._has_come_to(targets):
                break
            now_ms = self._clock.elapsed_ms()
            if now_ms - self._began_ms > self._plan.upkeep.run_ms_max:
                self._rest()
                return False
            if self._reader.has_changed or now_ms - self._looked_ms > TOPICS_MAX_AGE_MS:
                self._look()
            if not self._is_held_back():
                self._read_and_write()
            if not self._reader.is_away:
                self.well_ms = now_ms
            if self._appended >= self._plan.upkeep.begun_every:
                self._rest()
            if self._plan.groups and now_ms - self._grouped_ms > GROUPS_EVERY_MS:
                self._grouped_ms = now_ms
                self._writer.land()
                self._groups.translate(self._log.translation, self._reader.places)
            if now_ms - self._told_ms > _TOLD_EVERY_MS:
                self._told_ms = now_ms
                self._told(self.copied())
        self._rest()
        self._groups.translate(self._log.translation, self._reader.places)
        self._told(self.copied())
        return True

    def copied(self) -> Copied:
        """Up to now."""
        before = {each.topic: each for each in self._before.topics}
        lags, counts = self._reader.lags(), Counter(source.topic for source in self._reader.places)
        topics = []
        for name in sorted(before.keys() | counts.keys()):
            done = before.get(name, CopiedTopic(name, 0, 0, 0, 0))
            rows, size_bytes = self._writer.written[self._plan.output_of(name)]
            topics.append(
                CopiedTopic(name, done.rows + rows, done.size_bytes + size_bytes, lags[name], counts[name])
            )
        return Copied(tuple(topics), self._before.elapsed_ms + self._clock.elapsed_ms() - self._began_ms)

    def close(self) -> None:
        self._reader.close()

    def _has_come_to(self, targets: Mapping[TopicPartition, int]) -> bool:
        places = self._reader.places
        return all(places[source].offset >= end for source, end in targets.items() if source in places)

    def _rest(self) -> None:
        """All is acknowledged, and BEGUN says where that is; what is older than is needed of the journal goes."""
        self._writer.land()
        self._places |= self._writer.settled(self._reader.places)
        assert self._log.grant is not None
        self._log.append(Begun(self._log.grant, this_process().owner, tuple(self._places.values())))
        self._log.cut(self._clock.now_ms(), self._plan.upkeep.kept_ms)
        self._appended = 0

    def _look(self) -> None:
        """Topics and partitions come and go while a copy runs."""
        self._looked_ms = self._clock.elapsed_ms()
        self._reader.has_changed = False
        self._log.look_again()  # whoever has nothing to copy is to hear of a newer copy, too
        wanted = self._topics.wanted()
        known = self._places | dict(self._reader.places)
        moved = self._topics.check_source(wanted, known)
        new = self._topics.new_places(wanted, known, is_first=False)
        if moved:
            self._rest()
            self._join(self._topics.check_source(wanted, self._places))
        self._join(new)
        self._read(wanted)

    def _join(self, places: dict[TopicPartition, Place]) -> None:
        if places:
            assert self._log.grant is not None
            self._log.append(Joined(self._log.grant, tuple(places.values())))
            self._places |= places
            self._reader.leave(places)

    def _read(self, wanted: Mapping[str, TopicMetadata]) -> None:
        """What there is at the source now, and nothing else."""
        reading = self._reader.places
        there = {
            TopicPartition(name, number) for name, topic in wanted.items() for number in topic.partitions
        }
        new = {tp: place for tp, place in self._places.items() if tp in there and tp not in reading}
        self._writer.begin_at(new)
        self._reader.begin_at(new)
        self._reader.leave([tp for tp in reading if tp not in there])

    def _read_and_write(self) -> None:
        """What comes next."""
        parts = self._reader.next()
        if not any(part.batches for part in parts.values()):
            self._writer.land()
            self._appended += self._writer.pass_by(parts, self._reader.places)
            return
        before = self._writer.bytes
        self._writer.write(parts, self._reader.places)
        self._appended += 1
        if self._pace is not None:
            self._pace.send(self._writer.bytes - before, self._clock.elapsed_ms())

    def _is_held_back(self) -> bool:
        """By the rate; a while has passed then."""
        owed_ms = 0 if self._pace is None else self._pace.owed_ms(self._clock.elapsed_ms())
        if owed_ms:
            self._writer.land()  # nothing follows for a while
            self._clock.pause(min(owed_ms, RATE_PAUSE_MS_MAX))
        return owed_ms > 0
