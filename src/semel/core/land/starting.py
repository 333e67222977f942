"""Where a start goes on, and what it finds lost. Pure: marks of the table and facts of the log in, positions out.

A partition that the table knows goes on at its mark. One that it does not know, of a topic that it knows, is new: it
begins at offset 0, so that what was trimmed of it before anybody looked is told as lost. A topic that it does not know
begins where the job was told to. Of a log that lost its end, what is left is landed: it goes on at the new end. (Where
brokers have no topic ids it may as well be another log, which is read from its beginning.) One that has grown beyond
the mark since is known by its batch there, which is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.land.marks import Mark, held_topic_id, offset_mark, topic_marks
from semel.core.sink.ranges import ids_agree
from semel.errors import DataLoss
from semel.types import TopicPartition

REMEDY = "Nothing of it was landed, and the table is as it was. --accept-loss goes on with what is left"


@dataclass(frozen=True, slots=True)
class LogTopic:
    """A topic as the log has it now: its id, and each partition's first offset and (exclusive) end."""

    topic_id: str | None
    firsts: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Starting:
    """Where each partition goes on; what was lost in front of it; the marks that say so."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    losses: list[DataLoss] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)


def starting(mark: Mark, job: str, topics: Mapping[str, LogTopic], *, from_latest: bool = False) -> Starting:
    """Plan a start: the positions are those that hold if the losses are accepted."""
    found = Starting()
    for topic, log in topics.items():
        is_known, held_id = held_topic_id(mark, job, topic)
        is_same = is_known and ids_agree(held_id, log.topic_id)
        if is_known and not is_same:
            found.losses.append(_made_anew(mark, job, topic, held_id))
        for partition in sorted(log.ends):
            source = TopicPartition(topic, partition)
            first, end = log.firsts[partition], log.ends[partition]
            if is_same:
                held = mark(offset_mark(job, source, held_id)) or 0
                found.losses.extend(_losses(source, held, first, end))
                is_shorter = held > end and log.topic_id is not None  # its rows up to there are landed
                position = held if first <= held <= end else end if is_shorter else first
            else:
                position = end if from_latest and not is_known else first
            found.positions[source] = position
            found.marks[offset_mark(job, source, log.topic_id)] = position
        found.marks.update(topic_marks(job, topic, log.topic_id))
    return found


def _losses(source: TopicPartition, held: int, first: int, end: int) -> list[DataLoss]:
    if held < first:
        return [
            DataLoss(source, held, first, "retention or a trim took them before they were landed", REMEDY)
        ]
    if held > end:
        why = f"the log ends at offset {end}, and the table has rows up to {held - 1}: it has lost its end"
        return [DataLoss(source, end, held, why, f"{REMEDY}; the offsets are then given anew")]
    return []


def another_batch(source: TopicPartition, last_offset: int, position: int) -> DataLoss:
    """Of a log that has another batch there than was landed: it goes on at its position."""
    why = (
        f"the batch at offset {last_offset} is another one than was landed: it has lost its end, as when a data folder "
        f"is put back from an older copy, and was written to since"
    )
    remedy = f"{REMEDY}; rows that were given offsets below {position} since then are never landed"
    return DataLoss(source, last_offset, max(position, last_offset + 1), why, remedy)


def _made_anew(mark: Mark, job: str, topic: str, held_id: str | None) -> DataLoss:
    source = TopicPartition(topic, 0)
    held = mark(offset_mark(job, source, held_id)) or 0
    why = "the topic was deleted and made anew, and the table has rows of the one before"
    remedy = (
        "Nothing of the new one was landed. --accept-loss goes on with it, from its beginning; what was not landed of "
        "the one before is lost"
    )
    return DataLoss(source, held, held, why, remedy)
