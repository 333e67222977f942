"""What the recorded inputs of a stage give, worked out from the logs by what its steps mean and by nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from semel.record.partitioner import partition_for_key
from semel.sim.flows.steps import Meaning, Row, split_row
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.view import RecordedEntry, StageView, StoredRecord


@dataclass(frozen=True, slots=True)
class Made:
    """A row that a stage writes, and in front of which offset of its source it is due."""

    due: int
    key: bytes | None
    value: Row | bytes  # as JSON says; or as it came, of a row that no step could take


@dataclass(slots=True)
class Replayed:
    """Of one source partition: rows by output partition, and the state behind each entry."""

    rows: dict[TopicPartition, list[Made]] = field(default_factory=dict)
    states: dict[int, dict[bytes, Any]] = field(default_factory=dict)  # by planned end

    def add(self, tp: TopicPartition, made: Made) -> None:
        self.rows.setdefault(tp, []).append(made)


def replay(view: StageView, source: TopicPartition) -> Replayed:
    """All that ``source`` has given or has yet to give."""
    if view.stage.is_stateful:
        return _replay_entries(view, source.partition)
    return _replay_records(view, source)


def read_row(value: bytes) -> Row | None:
    """The row; ``None`` for a value that is none."""
    return _read_row(value)


@lru_cache(16_384)
def _read_row(value: bytes) -> Row | None:
    try:
        row: Row = json.loads(value)
    except ValueError:
        return None
    return row


def _replay_records(view: StageView, source: TopicPartition) -> Replayed:
    replayed = Replayed()
    counts = view.flow.story.partition_counts
    bad = TopicPartition(view.flow.story.plan.bad_topic, 0)
    for record in view.flow.records(source):
        row, due = read_row(record.value), record.record_offset + 1
        if row is None:
            replayed.add(bad, Made(due, record.key, record.value))
            continue
        for made in split_row(row["user"], row["id"]):
            if made["user"] is None:
                replayed.add(bad, Made(due, None, made))
                continue
            key = made["user"].encode()
            output = view.stage.output.topic
            number = partition_for_key(key, counts[output])
            replayed.add(TopicPartition(output, number), Made(due, key, made))
    return replayed


def _replay_entries(view: StageView, partition: int) -> Replayed:
    story = view.flow.story
    replayed, meaning = Replayed(states={0: {}}), Meaning(story.doing)
    for entry in view.entries(partition):
        rows = [(record.key or b"", record.value) for record in rows_of(view, entry)]
        for key, row in meaning.entry(rows):
            number = partition_for_key(key, story.partition_counts[story.output])
            replayed.add(TopicPartition(story.output, number), Made(entry.offset + 1, key, row))
        replayed.states[entry.offset + 1] = meaning.state()
    return replayed


def rows_of(view: StageView, entry: RecordedEntry) -> list[StoredRecord]:
    """The rows of an entry, in its order."""
    return [
        record
        for each in entry.ranges
        for record in view.flow.records(each.tp)
        if each.from_offset <= record.record_offset < each.end_offset
    ]
