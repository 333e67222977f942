"""A stage once more, from the beginning of its recorded inputs up to a decided end, in this process.

The very same steps as in a task of the flow, without what a task has beside them: no store, no micro-batches, no
attempts. What comes out is what the sink would be handed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from semel.core.flow.merge import PlacedEntry
from semel.core.flow.pieces import Entry, Piece
from semel.core.flow.state import MemoryBase, State, inline_bytes_max
from semel.core.sink.ranges import SourceRange
from semel.flow.plan import Stage
from semel.flow.rows_in import EntryRows, cut_at_offsets, piece_of, proven, with_output_key
from semel.flow.rows_out import changelog_batch, output_batch, side_batches
from semel.flow.stage_ranges import plain_tables
from semel.flow.task import chain_of
from semel.flow.unreadable import readable
from semel.spark.options import Connection
from semel.spark.planning import ReadRange


def stateless(stage: Stage, connection: Connection, source_range: SourceRange) -> Iterator[pa.RecordBatch]:
    """What a stage of Python's steps makes of a plain range."""
    (given,) = stage.inputs
    chain = chain_of(stage).start()
    number = source_range.batch_from
    for table in recorded_rows(stage, connection, source_range):
        entry = Entry()
        piece = readable(piece_of(given, 0, table, source_range.source), table, entry)
        read = proven(given, piece, entry)
        pieces = chain.process(read, entry)
        yield from list(_written(stage, pieces, entry, number))
        number = int(table.column("offset")[-1].as_py()) + 1


class Stateful:
    """A stage over the entries of one partition of its merge log; ``state`` is what it has come to."""

    def __init__(
        self, stage: Stage, connection: Connection, partition: int, entries: Sequence[PlacedEntry]
    ) -> None:
        self.stage, self.connection, self.partition, self.entries = stage, connection, partition, entries
        bound = inline_bytes_max(stage.partition_count)
        self.state = State(MemoryBase(), None, inline_bytes_max=bound) if stage.has_state else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What it makes of them."""
        stage, state = self.stage, self.state
        chain = chain_of(stage).start()
        rows = EntryRows(stage, self.connection, self.partition, self.entries)
        for placed in self.entries:
            entry = Entry(placed.offset, placed.entry.tick_ms, state)
            yield from list(
                _written(stage, chain.process(rows.of(placed, entry), entry), entry, placed.offset)
            )
            if state is not None:
                for changed in state.end_entry(placed.offset):
                    yield changelog_batch(stage, self.partition, changed.keys, changed.values)


def _written(stage: Stage, pieces: list[Piece], entry: Entry, number: int) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        keyed = with_output_key(stage, piece, entry)
        if len(keyed):
            yield output_batch(stage, keyed, entry)[1]
    yield from side_batches(stage, entry, number)


def recorded_rows(stage: Stage, connection: Connection, source_range: SourceRange) -> Iterator[pa.Table]:
    """The rows of a plain range, in pieces as the stage's tasks have them."""
    planned = ReadRange(source_range, source_range.batch_from, source_range.batch_end)
    return cut_at_offsets(plain_tables(stage, connection, planned))
