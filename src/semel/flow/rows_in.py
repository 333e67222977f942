"""From the log's records to the pieces that the steps see.

A piece is cut at places that are known beforehand, whatever a fetch held: so many rows of an entry's range, or, in a
stateless stage, the rows between two multiples of :data:`PIECE_OFFSETS`. So a second attempt, whose fetches are
answered otherwise, gives the sink the same rows. A piece is so small because its rows, as Python objects, are then made
where those of the one before were, in a core's cache: with eight times as many, reading takes twice as long. Where
rows are large it has fewer, counted from the first row on: a column of bytes holds 2 GiB, and a task not even that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.unreadable import tables_of
from semel.core.flow.chain import read as read_piece
from semel.core.flow.codec import keys_of_rows, keys_of_table
from semel.core.flow.merge import EntryRange, PlacedEntry
from semel.core.flow.pieces import HEADERS_TYPE, Entry, Origin, Piece, header_bytes_of, keyed
from semel.errors import StepFailed
from semel.flow.losses import told_to_a_flow
from semel.flow.plan import Input, Stage, Tombstones
from semel.flow.unreadable import readable, with_unreadable
from semel.record.columnar import partition_rows
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.reading import read_range
from semel.types import TopicPartition

PIECE_OFFSETS: Final = 8192
PIECE_BYTES_MAX: Final = 16 * 2**20  # of keys, values and headers; a larger row is a piece of its own
KEYED: Final = "key"  # the step at which it is found that a row's key is not what the flow was told


def cut_at_offsets(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, cut at multiples of :data:`PIECE_OFFSETS`, and before :data:`PIECE_BYTES_MAX` are exceeded.

    ``tables`` have a column ``offset`` that rises. Of two calls that begin at the same row each gives the same cuts.
    """
    waiting: list[pa.Table] = []
    block, size_bytes = -1, 0
    for table in tables:
        blocks = np.asarray(table.column("offset")) // PIECE_OFFSETS
        start = 0
        for end in [*(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]:
            if end == start:
                continue
            if waiting and int(blocks[start]) != block:
                yield pa.concat_tables(waiting)
                waiting, size_bytes = [], 0
            block = int(blocks[start])
            for part, part_bytes, is_cut in _parts(table.slice(start, end - start), size_bytes):
                if is_cut and waiting:
                    yield pa.concat_tables(waiting)
                    waiting, size_bytes = [], 0
                waiting.append(part)
                size_bytes += part_bytes
            start = end
    if waiting:
        yield pa.concat_tables(waiting)


def _parts(table: pa.Table, before_bytes: int) -> Iterator[tuple[pa.Table, int, bool]]:
    """The rows in parts that fit a piece, the first behind ``before_bytes``; and whether a piece begins with each."""
    sizes = [
        pc.fill_null(pc.binary_length(table.column(name)), 0)
        for name in ("key", "value")
        if name in table.column_names
    ]
    if "headers" in table.column_names:
        sizes.append(pa.array(header_bytes_of(table.column("headers").combine_chunks())))
    total = sum(int(pc.sum(each).as_py() or 0) for each in sizes)
    if before_bytes + total <= PIECE_BYTES_MAX:
        yield table, total, False
        return
    start = part_bytes = 0
    of_rows = np.zeros(table.num_rows, dtype=np.int64)
    for each in sizes:
        of_rows += np.asarray(each, dtype=np.int64)
    for row, size in enumerate(of_rows.tolist()):
        if before_bytes + part_bytes + size > PIECE_BYTES_MAX and before_bytes + part_bytes:
            if row > start:
                yield table.slice(start, row - start), part_bytes, not before_bytes
            start, part_bytes, before_bytes = row, 0, 0
        part_bytes += size
    yield table.slice(start), part_bytes, not before_bytes


def cut_in_rows(table: pa.Table) -> Iterator[pa.Table]:
    """The same rows, cut behind each :data:`PIECE_OFFSETS` of them, and where those are large, before."""
    for start in range(0, table.num_rows, PIECE_OFFSETS):
        for part, _, _ in _parts(table.slice(start, PIECE_OFFSETS), 0):
            yield part


class EntryRows:
    """The rows of entries that follow on each other, each input's read ahead in one go."""

    def __init__(
        self, stage: Stage, connection: Connection, partition: int, entries: Sequence[PlacedEntry]
    ) -> None:
        self._stage, self._partition = stage, partition
        self._numbers = {read.topic: number for number, read in enumerate(stage.inputs)}
        spans: dict[str, list[EntryRange]] = {}
        for placed in entries:
            for each in placed.entry.ranges:
                spans.setdefault(each.topic, []).append(each)
        self._cursors = {
            topic: _Cursor(
                connection,
                TopicPartition(topic, partition),
                ranges,
                has_headers=stage.inputs[self._numbers[topic]].reads_headers,
            )
            for topic, ranges in spans.items()
        }

    def of(self, placed: PlacedEntry, entry: Entry) -> Iterator[Piece]:
        """The pieces of one entry, in the order of its ranges; the next one's entry has to follow."""
        for each in placed.entry.ranges:
            number = self._numbers[each.topic]
            read = self._stage.inputs[number]
            table = self._cursors[each.topic].take(each.end_offset)
            source = TopicPartition(each.topic, self._partition)
            for part in cut_in_rows(table):
                piece = readable(piece_of(read, number, part, source), part, entry)
                yield from in_its_partition(read, piece, self._partition, self._stage.partition_count, entry)


class _Cursor:
    """One input's rows, from the first range's beginning on."""

    def __init__(
        self,
        connection: Connection,
        source: TopicPartition,
        ranges: Sequence[EntryRange],
        *,
        has_headers: bool,
    ) -> None:
        first, last = ranges[0].from_offset, ranges[-1].end_offset
        self._source, self._first, self._last, self._has_headers = source, first, last, has_headers
        fetches = read_range(
            connect(connection),
            source,
            first,
            last,
            topic_id=ranges[0].topic_id,
            last_leader_epoch=ranges[0].last_leader_epoch,
        )
        self._tables = (
            table for batches in fetches for table in self._decoded([batch for batch, _ in batches])
        )
        (self._left,) = self._decoded(())

    def _decoded(self, batches: Sequence[memoryview]) -> Iterator[pa.Table]:
        read = tables_of(self._source, batches, self._first, self._last, include_headers=self._has_headers)
        for found in read:
            yield with_unreadable(found, self._last, has_headers=self._has_headers)

    def take(self, end_offset: int) -> pa.Table:
        """The rows in front of ``end_offset`` that were not taken yet."""
        parts = []
        while True:
            offsets = np.asarray(self._left.column("offset"))
            count = int(np.searchsorted(offsets, end_offset))
            parts.append(self._left.slice(0, count))
            self._left = self._left.slice(count)
            if count < len(offsets):
                break
            with told_to_a_flow():
                following = next(self._tables, None)
            if following is None:
                break
            self._left = following
        return pa.concat_tables(parts)


def piece_of(read: Input, number: int, table: pa.Table, source: TopicPartition) -> Piece:
    """Records of input ``number``, not read yet."""
    return Piece(
        table.column("key").combine_chunks(),
        read.schema,
        raw=table.column("value").combine_chunks(),
        input=number,
        headers=table.column("headers").combine_chunks().cast(HEADERS_TYPE) if read.reads_headers else None,
        origin=Origin(source.topic, source.partition, np.asarray(table.column("offset"))),
        timestamps=table.column("timestamp").combine_chunks() if read.has_record else None,
    )


def in_its_partition(
    read: Input, piece: Piece, partition: int, partition_count: int, entry: Entry
) -> Iterator[Piece]:
    """The rows that have a key. Each is proven to lie where its key belongs, or the flow stops.

    A topic may have been keyed by another partitioner, or have grown: the state of a key would be in two partitions.
    """
    if not read.is_keyed or not len(piece):
        yield piece
        return
    piece = keyed(piece, entry, KEYED)
    keys = piece.keys
    if keys is None or not len(piece):
        return
    elsewhere = np.flatnonzero(partition_rows(keys, partition_count) != partition)
    if len(elsewhere):
        row = int(elsewhere[0])
        raise StepFailed(
            KEYED,
            piece.place(row),
            f"the key {keys[row].as_py()!r} belongs to another partition of the {partition_count} by Kafka's murmur2 "
            f"partitioner: the topic was written by another partitioner, or it grew. Leave key= out where the source "
            f"is declared, or put .key_by(..., partitions=n) behind it: the rows go through a topic of the flow's then",
        )
    yield from proven(read, piece, entry)


def proven(read: Input, piece: Piece, entry: Entry, *, as_columns: bool = False) -> Iterator[Piece]:
    """The piece, with its values read where the source's record key is said to be that of its columns: it has to be."""
    if not read.is_promised or piece.schema is None:
        yield piece
        return
    is_unkeyed = read.tombstones is Tombstones.UNKEYED
    for each in read_piece(piece, entry, as_columns=as_columns, is_table=read.deletes, is_unkeyed=is_unkeyed):
        if not each.is_tombstones:
            _prove_columns(read, each)
        yield each


def _prove_columns(read: Input, piece: Piece) -> None:
    names = tuple(field.name for field in read.key)
    assert piece.schema is not None
    made = (
        keys_of_rows(piece.schema, names, piece.rows)
        if piece.rows is not None
        else keys_of_table(piece.schema, names, piece.as_table())
    )
    # A row that is keyed by its columns from here on may have had no key.
    differs = np.flatnonzero(~np.asarray(pc.fill_null(pc.equal(made, piece.keys), not read.is_keyed)))
    if len(differs):
        row = int(differs[0])
        raise StepFailed(
            KEYED,
            piece.place(row),
            f"the record's key is not what its column {', '.join(names)} says. Leave key= out where the source is "
            f"declared",
        )


def with_output_key(stage: Stage, piece: Piece, entry: Entry) -> Piece:
    """Under the key that the stage's output is written by. A row whose key is null is bad where the key matters."""
    key = stage.output.key
    if piece.is_tombstones:
        return keyed(piece, entry, KEYED)
    if key == ():
        return piece
    if key is None:
        piece.keys = None
        return piece
    names = tuple(field.name for field in key)
    assert piece.schema is not None, "a key is made of columns"
    piece.keys = (
        keys_of_rows(piece.schema, names, piece.rows)
        if piece.rows is not None
        else keys_of_table(piece.schema, names, piece.as_table())
    )
    return keyed(piece, entry, KEYED)
