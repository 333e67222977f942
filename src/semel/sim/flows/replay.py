"""What the recorded inputs of a stage give, worked out from the logs by what its steps mean and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semel.core.flow.pieces import BAD, LATE, Entry, Piece
from semel.core.flow.schema import parse_schema
from semel.core.flow.state import MemoryBase, State
from semel.flow.rows_in import in_its_partition, piece_of, with_output_key
from semel.flow.task import chain_of
from semel.record.partitioner import partition_for_key
from semel.sim.flows.recorded import RecordedEntry, StoredRecord
from semel.sim.flows.steps import LEVELS, Meaning, Row, split_row
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.view import StageView


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
        is_plain = view.flow.story.doing.is_plain
        return (_replay_entries if is_plain else _replay_steps)(view, source.partition)
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
        for made in made_of(view, row):
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


def made_of(view: StageView, row: Row) -> list[Row]:
    """What a stateless stage makes of a row."""
    if view.stage.output.schema == parse_schema(LEVELS):
        return [{"user": row["user"], "level": row["id"]}]
    return split_row(row["user"], row["id"], row["at"])


def _replay_steps(view: StageView, partition: int) -> Replayed:
    """By the product's own steps, from the first entry to the last in one go."""
    stage, story = view.stage, view.flow.story
    replayed, state = Replayed(states={0: {}}), State(MemoryBase(), None, inline_bytes_max=2**40)
    chain = chain_of(stage).start()
    sides = {BAD: TopicPartition(story.plan.bad_topic, 0), LATE: TopicPartition(story.plan.late_topic, 0)}
    for recorded in view.entries(partition):
        entry = Entry(recorded.offset, recorded.tick_ms, state)
        due = recorded.offset + 1
        for piece in chain.process(_pieces(view, recorded, partition, entry), entry):
            keyed = with_output_key(stage, piece, entry)
            assert keyed.keys is not None
            for key, value in zip(keyed.keys.to_pylist(), keyed.values().to_pylist(), strict=True):
                number = partition_for_key(key, story.partition_counts[story.output])
                replayed.add(TopicPartition(story.output, number), Made(due, key, value))
        for side in entry.side:
            for key, value in zip(side.keys.to_pylist(), side.values.to_pylist(), strict=True):
                replayed.add(sides[side.output], Made(due, key, value))
        list(state.end_entry(recorded.offset))
        replayed.states[due] = dict(state.scan())
    return replayed


def _pieces(view: StageView, recorded: RecordedEntry, partition: int, entry: Entry) -> Iterator[Piece]:
    stage = view.stage
    numbers = {read.topic: number for number, read in enumerate(stage.inputs)}
    for each in recorded.ranges:
        number = numbers[each.tp.topic]
        records = rows_of(view, RecordedEntry(recorded.offset, (each,)))
        table = pa.table(
            {
                "key": pa.array([record.key for record in records], pa.binary()),
                "value": pa.array([record.value for record in records], pa.binary()),
                "offset": pa.array([record.record_offset for record in records], pa.int64()),
            }
        )
        read = stage.inputs[number]
        piece = piece_of(read, number, table, each.tp)
        yield from in_its_partition(read, piece, partition, stage.partition_count, entry)


def rows_of(view: StageView, entry: RecordedEntry) -> list[StoredRecord]:
    """The rows of an entry, in its order."""
    return [
        record
        for each in entry.ranges
        for record in view.flow.records(each.tp)
        if each.from_offset <= record.record_offset < each.end_offset
    ]
