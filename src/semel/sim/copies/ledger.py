"""What was ever seen in the topics of a site, by the topics' ids: what was trimmed since, or deleted, is remembered.

Looked at whenever a server has synced something or has come up: nothing that a reader could take goes unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from semel.record.batch import BatchHeader, decode_records, scan_batches
from semel.record.records import Record
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.types import TopicPartition

READ_BYTES = 1 << 20


class TopicLog(NamedTuple):
    """One partition of one topic: another topic of that name is another one."""

    tp: TopicPartition
    topic_id: str


@dataclass(slots=True)
class SeenLog:
    """All that could ever be read there, in order."""

    records: list[Record] = field(default_factory=list)
    batches: list[BatchHeader] = field(default_factory=list)
    end: int = 0
    may_be_gone_below: int = 0  # somebody asked for a trim
    may_be_deleted: bool = False  # likewise
    was_put_back: bool = False  # once, from an older copy

    def take(self, batch: memoryview, header: BatchHeader) -> None:
        """The next one."""
        self.batches.append(header)
        if not header.is_control:
            self.records += decode_records(batch)
        self.end = header.last_offset + 1

    def forget_from(self, end: int) -> None:
        """The log is shorter than it was."""
        self.records = [record for record in self.records if record.offset < end]
        self.batches = [header for header in self.batches if header.base_offset < end]
        self.end = end


class SiteLedger:
    """Beside the witness of one server; ``seen`` is told of each look that has found something."""

    def __init__(self, topics: Callable[[], Sequence[str]], seen: Callable[[], None]) -> None:
        self.logs: dict[TopicLog, SeenLog] = {}
        self.ids: dict[str, str] = {}  # by name: of the topic that has it, or had it last
        self._topics = topics
        self._seen = seen
        self._trims: dict[TopicPartition, int] = {}
        self._deleted: set[str] = set()  # topic ids

    def may_be_deleted(self, topic_id: str) -> None:
        """Somebody asks for it; partitions that nobody has looked at by then are the topic's too."""
        self._deleted.add(topic_id)
        for place, log in self.logs.items():
            log.may_be_deleted |= place.topic_id == topic_id

    def may_be_trimmed(self, tp: TopicPartition, before: int) -> None:
        """Somebody asks for it, by the name: a topic that is made anew meanwhile may be the one that hears."""
        self._trims[tp] = max(before, self._trims.get(tp, 0))
        for place, log in self.logs.items():
            if place.tp == tp:
                log.may_be_gone_below = max(before, log.may_be_gone_below)

    def appended(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        """Nobody can read it yet."""

    def synced(self, storage: Storage, tps: Iterable[TopicPartition]) -> None:
        """What was written to these can be read."""
        wanted = {tp.topic for tp in tps}.intersection(self._topics())
        if wanted:
            self._look(storage, [topic for topic in self._topics() if topic in wanted])

    def recovered(self, storage: Storage) -> None:
        """A process is about to serve what it has found."""
        self._look(storage, self._topics())

    def log(self, tp: TopicPartition) -> SeenLog | None:
        """Of the topic that has the name now."""
        topic_id = self.ids.get(tp.topic)
        return None if topic_id is None else self.logs.get(TopicLog(tp, topic_id))

    def current(self, topics: Collection[str]) -> list[tuple[TopicLog, SeenLog]]:
        """Those of the topics that have these names now."""
        return [
            (place, log)
            for place, log in self.logs.items()
            if place.tp.topic in topics and place.topic_id == self.ids[place.tp.topic]
        ]

    def _look(self, storage: Storage, topics: Sequence[str]) -> None:
        for name in topics:
            topic = storage.topics.get(name)
            if topic is None:
                continue
            self.ids[name] = str(topic.topic_id)
            for number in range(topic.partition_count):
                partition = storage.partition(name, number)
                if partition is not None and partition.is_online:
                    place = TopicLog(partition.name, str(topic.topic_id))
                    if place not in self.logs:
                        self.logs[place] = SeenLog(
                            may_be_gone_below=self._trims.get(partition.name, 0),
                            may_be_deleted=place.topic_id in self._deleted,
                        )
                    _read(partition, self.logs[place])
        self._seen()


def _read(partition: Partition, seen: SeenLog) -> None:
    high_watermark = partition.high_watermark
    if high_watermark < seen.end:
        seen.forget_from(high_watermark)
    while seen.end < high_watermark:
        piece = partition.read(seen.end, READ_BYTES)
        assert isinstance(piece, Slice), f"{partition.name} was not looked at before it was trimmed: {piece}"
        for batch, header in scan_batches(piece.read(), allow_partial_tail=True):
            if header.base_offset >= seen.end:
                seen.take(batch, header)
