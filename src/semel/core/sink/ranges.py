"""Source ranges: how a micro-batch is recognised. By its ranges, never by its id alone.

A restored checkpoint plans the same batch id with other ranges (skipping by id would lose rows), and an old
driver that decided one batch further would make a new one write the older batch again. So each source
partition's range is held against the end that the log has decided for it: an offset, and the id of the topic
that it is of. A name can be given again; an offset of a topic that is gone says nothing of the next one's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from semel.core.sink.refusal import Refusal, replay_differs
from semel.types import NO_LEADER_EPOCH, TopicPartition


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What one task reads: a split of one source partition's range in one micro-batch.

    ``batch_from`` and ``batch_end`` (exclusive) are the whole partition's range; ``split_index`` of
    ``split_count`` says which part of it this task has. ``idle_ends`` are the ends of the source partitions
    that have no row in this micro-batch; only the first task of a micro-batch carries them.

    ``topic_id`` is that of the topic whose rows these are, and ``from_topic_id`` that of the one that
    ``batch_from`` is an offset of. They differ where the topic was made anew and the source was told to go on
    (``failOnDataLoss=false``): the range is then all of the new topic up to ``batch_end``, and what the older one
    still had is given up; so it is where ``is_gone``. ``None``: a checkpoint that knows no ids yet, or brokers
    that have none.
    """

    source: TopicPartition
    batch_from: int
    batch_end: int
    split_index: int = 0
    split_count: int = 1
    idle_ends: tuple[tuple[TopicPartition, int], ...] = ()
    topic_id: str | None = None
    from_topic_id: str | None = None
    is_gone: bool = False  # the topic that the range was planned in is not there any more: it has no rows
    idle_topic_ids: tuple[tuple[str, str], ...] = ()  # of ``idle_ends``
    # Under these the log had all rows up to ``batch_end``, and up to ``idle_ends``: a log that was cut since says so.
    end_leader_epoch: int = NO_LEADER_EPOCH
    idle_leader_epochs: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def writer(self) -> str:
        """The writer's name: (source partition, topic id, split, split rule), never "Spark partition p".

        Spark's numbering depends on the plan: five may be three on replay. Without the topic's id where the range
        was begun without one: so the rows of a micro-batch that an older semel planned are met again.
        """
        return f"{self.siblings}{self.split_index}of{self.split_count}"

    @property
    def siblings(self) -> str:
        """The prefix of the writers of this topic's rows, whatever their split."""
        has_id = self.topic_id is not None and self.from_topic_id is not None
        return writers_of(self.source) + (f"{self.topic_id}/" if has_id else "")

    def is_sibling(self, writer: str) -> bool:
        """Whether ``writer`` has rows of this source partition, and of this topic."""
        return writer.startswith(self.siblings) and "/" not in writer.removeprefix(self.siblings)

    def is_stranger(self, writer: str) -> bool:
        """Whether ``writer``, which reads this source partition, is known to read another topic of its name."""
        parts = writer.removeprefix(writers_of(self.source)).split("/")
        return not ids_agree(parts[0] if len(parts) > 1 else None, self.topic_id)

    def gives_up(self, writer: str) -> bool:
        """Whether the rest of ``writer``'s rows will never come: the source was told to go on without them.

        Those of them that are stored are rows of the source as any others, and stay.
        """
        if self.is_gone or ids_agree(self.from_topic_id, self.topic_id):
            return self.is_gone and writer.startswith(writers_of(self.source))
        # Of any partition: the new topic may have fewer.
        return writer.startswith(f"{self.source.topic}/") and f"/{self.topic_id}/" not in writer


def writers_of(source: TopicPartition) -> str:
    """The prefix of every writer name that reads ``source``; no topic name holds a slash."""
    return f"{source.topic}/{source.partition}/"


def source_topic_of(writer: str) -> str:
    """The topic that a stream's writer reads."""
    return writer.partition("/")[0]


def ids_agree(one: str | None, other: str | None) -> bool:
    """Whether two offsets may be of the same topic. What has no id is held by its offset alone."""
    return one is None or other is None or one == other


class Verdict(Enum):
    """What a task does with its range."""

    WRITE = "write"
    SKIP = "skip"


def judge_range(
    source_range: SourceRange,
    query_id: str,
    decided_end: int | None,
    decided_query_id: str | None,
    decided_topic_id: str | None = None,
) -> Verdict | Refusal:
    """Skip what is decided, write what starts exactly there, refuse everything else."""
    if decided_end is None:
        return Verdict.WRITE
    if decided_end == source_range.batch_from and ids_agree(source_range.from_topic_id, decided_topic_id):
        return Verdict.WRITE
    is_same = ids_agree(source_range.topic_id, decided_topic_id)
    if is_same and source_range.batch_end <= decided_end and query_id == decided_query_id:
        return Verdict.SKIP
    planned = (
        f"the planned range of {source_range.source} is {source_range.batch_from} to "
        f"{source_range.batch_end} (exclusive), and the log has decided up to {decided_end}"
    )
    if not is_same:
        planned += f" of another topic of that name ({decided_topic_id}; this one is {source_range.topic_id})"
    if query_id != decided_query_id:
        planned += f" for another query ({decided_query_id}; this one is {query_id})"
    return replay_differs(planned)
