"""Source ranges: how a micro-batch is recognised. By its ranges, never by its id alone.

A restored checkpoint plans the same batch id with other ranges (skipping by id would lose rows), and an old
driver that decided one batch further would make a new one write the older batch again. So each source
partition's range is held against the end that the log has decided for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from semel.core.sink.refusal import Refusal, replay_differs
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What one task reads: a split of one source partition's range in one micro-batch.

    ``batch_from`` and ``batch_end`` (exclusive) are the whole partition's range; ``split_index`` of
    ``split_count`` says which part of it this task has. ``idle_ends`` are the ends of the source partitions
    that have no row in this micro-batch; only the first task of a micro-batch carries them.
    """

    source: TopicPartition
    batch_from: int
    batch_end: int
    split_index: int = 0
    split_count: int = 1
    idle_ends: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def writer(self) -> str:
        """The writer's name: (source partition, split, split rule), never "Spark partition p".

        Spark's numbering depends on the plan: five may be three on replay.
        """
        return f"{writers_of(self.source)}{self.split_index}of{self.split_count}"


def writers_of(source: TopicPartition) -> str:
    """The prefix of every writer name that reads ``source``; no topic name holds a slash."""
    return f"{source.topic}/{source.partition}/"


class Verdict(Enum):
    """What a task does with its range."""

    WRITE = "write"
    SKIP = "skip"


def judge_range(
    source_range: SourceRange, query_id: str, decided_end: int | None, decided_query_id: str | None
) -> Verdict | Refusal:
    """Skip what is decided, write what starts exactly there, refuse everything else."""
    if decided_end is None or decided_end == source_range.batch_from:
        return Verdict.WRITE
    if source_range.batch_end <= decided_end and query_id == decided_query_id:
        return Verdict.SKIP
    planned = (
        f"the planned range of {source_range.source} is {source_range.batch_from} to "
        f"{source_range.batch_end} (exclusive), and the log has decided up to {decided_end}"
    )
    if query_id != decided_query_id:
        planned += f" for another query ({decided_query_id}; this one is {query_id})"
    return replay_differs(planned)
