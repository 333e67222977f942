"""Spark's checkpoint of one query: its id, the offsets planned for every micro-batch, and which are committed.

It lies on a disk of Spark's own. What may happen to it is not what a disk does to unsynced sectors but what
people and object stores do: it is lost, put back from a copy, or its last entries never became durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from semel.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class Checkpoint:
    """As Spark's offsets log and commits log; an entry is written whole or not at all."""

    query_id: str
    start: Offsets | None  # None: not known yet; the source is asked (``startingOffsets=sink:…``)
    sink_id: str  # what its query's options say
    ends: list[Offsets] = field(default_factory=list)  # by batch id
    commits: int = 0  # entries of the commits log
    start_topic_id: str | None = None  # of the topic that ``start`` is of
    topic_ids: list[str] = field(default_factory=list)  # by batch id: of those that ``ends`` are of
    was_old: bool = False  # when it was made, its query had planned more already
    whole: Checkpoint | None = None  # what it was torn off, if it was; a driver may still go on with that
    planned_by_whole: int = 0  # entries of its offsets log, then

    @property
    def is_old(self) -> bool:
        """Whether its query has planned more elsewhere, and may plan that again with other ends."""
        whole = self.whole
        return self.was_old or (
            whole is not None and (whole.is_old or len(whole.ends) > self.planned_by_whole)
        )

    def copy(self) -> Checkpoint:
        """A backup."""
        return replace(self, ends=list(self.ends), topic_ids=list(self.topic_ids), was_old=True)

    def torn(self, *, offsets_too: bool) -> Checkpoint:
        """Without its last commit entry; or without its last offsets entry as well."""
        last = len(self.ends) - 1
        ends = self.ends[:-1] if offsets_too else list(self.ends)
        return replace(
            self,
            ends=ends,
            topic_ids=self.topic_ids[: len(ends)],
            commits=min(self.commits, max(0, last)),
            was_old=self.was_old or offsets_too,
            whole=self,
            planned_by_whole=len(self.ends),
        )

    @property
    def next_batch_id(self) -> int:
        """Where a restarted query goes on: the last that was planned, unless that is committed."""
        return max(self.commits, len(self.ends) - 1)

    def starts_of(self, batch_id: int) -> Offsets:
        """Where micro-batch ``batch_id`` begins."""
        assert self.start is not None
        return self.ends[batch_id - 1] if batch_id else self.start

    def topic_id_of(self, batch_id: int) -> str | None:
        """Of the topic that micro-batch ``batch_id`` begins in."""
        return self.topic_ids[batch_id - 1] if batch_id else self.start_topic_id
