"""Reads a topic once, from its start to the end it has now, into what the checks need.

What is read is what a read_committed consumer sees: control batches and aborted transactions are no rows,
though their headers are judged. The end is fixed when reading begins, so a topic that is written to meanwhile
can be audited. In memory at a time: two fetch answers (``FETCH_BYTES_MAX``), the next one is on its way while one is
worked on, and what the store allows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, islice

import pyarrow as pa

from semel.audit.adding import Adding, TopicReading, columns_of
from semel.audit.report import TopicAudit
from semel.audit.sequences import SequenceCheck
from semel.audit.store import Rows, RowStore
from semel.audit.transactions import TransactionCheck
from semel.client.blocking import Cluster
from semel.client.cluster import Isolation
from semel.client.dead_letters import DeadLetters
from semel.client.model import Fetched
from semel.client.unreadable import check_progress, sound_part, tables_of
from semel.errors import BrokerError, CorruptRecordBatch, ErrorCode, SemelError, UnreadableBatch
from semel.record.batch import BatchHeader, Record, decode_records, scan_batches
from semel.record.control import MarkerType, decode_marker
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

FETCH_BYTES_MAX = 16 * 1024 * 1024
_PARTITION_BYTES_MAX = 4 * 1024 * 1024
_CHUNK_ROWS = 10_000  # of rows that stand in no log
_EMPTY_ANSWERS_MAX = 20  # in a row, before a partition that does not get on is given up

Progress = Callable[[int], None]  # is told of rows read since the last time


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows that stand in no log, as in a file: their name, and a way to read them, each time from the first on."""

    name: str
    read: Callable[[], Iterable[tuple[bytes | None, bytes | None]]]  # (key, value)


def read_rows(
    store: RowStore, rows: InputRows, reading: TopicReading, progress: Progress | None = None
) -> tuple[TopicAudit, Rows]:
    """Take rows as if they were one partition; the first line is offset 0."""
    side = store.rows(rows.name, reading.rows_max)
    add = Adding(side, reading)
    partition, count, selected = TopicPartition(rows.name, 0), 0, 0
    lines = iter(rows.read())
    while chunk := list(islice(lines, _CHUNK_ROWS)):
        keys, values = zip(*chunk, strict=True)
        selected += add(partition, columns_of(list(keys), list(values), count), sequenced=True)
        count += len(chunk)
        if progress is not None:
            progress(len(chunk))
    audit = TopicAudit(
        topic=rows.name,
        partition_rows={0: count},
        log_start_offsets={0: 0},
        end_offsets={0: count},
        sequences=SequenceCheck().verdict(),
        where=reading.where,
        selected_rows=None if reading.where is None else selected,
        is_log=False,
        unit="line",
    )
    return audit, side


def row_count(cluster: Cluster, topic: str) -> int:
    """About how many rows there are to read: the offsets between start and end."""
    first, end = bounds_of(cluster, topic)
    return sum(end[partition] - first[partition] for partition in first)


def bounds_of(cluster: Cluster, topic: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Of each partition of a topic that must exist: where its log starts, and where it ends for a reader."""
    partitions = partitions_of(cluster, topic)
    first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    return {p: first[p].offset for p in partitions}, {p: end[p].offset for p in partitions}


def read_topic(
    store: RowStore, cluster: Cluster, reading: TopicReading, progress: Progress | None = None
) -> tuple[TopicAudit, Rows]:
    """Take every row of the topic, and judge its producers on the way."""
    first, end = bounds_of(cluster, reading.topic)
    compacted = _is_compacted(cluster, reading.topic)
    side = store.rows(reading.topic, reading.rows_max)
    check = SequenceCheck(reading.examples_max, reading.producers_max)
    for partition in first:
        check.begin(partition, log_start_offset=first[partition], compacted=compacted)
    transactions = TransactionCheck(reading.examples_max)
    transactions.begin(compacted=compacted)
    row_counts = dict.fromkeys((partition.partition for partition in first), 0)
    add, selected, dead = Adding(side, reading), 0, 0
    topic = reading.dead_letter_topic
    opened = ExitStack()
    letters = (
        None
        if topic is None
        else opened.enter_context(DeadLetters(reading.dead_letter_bootstrap or cluster.seed_addresses, topic))
    )

    def passes(found: UnreadableBatch) -> bool:
        nonlocal dead
        is_kept = letters is not None and letters.has(found)
        dead += is_kept
        return is_kept

    with opened:
        for piece in read_pieces(cluster, first, end):
            for stored in piece.batches:
                check.feed(piece.partition, stored.header)
                transactions.feed(
                    piece.partition, stored.header, is_visible=stored.is_visible, marker=stored.marker
                )
            tables = piece.tables(
                include_headers=reading.wants_headers,
                include_timestamp_ms=reading.wants_timestamp_ms,
                passes=passes,
            )
            for sequenced, table in tables:
                for records in table.to_batches():
                    selected += add(piece.partition, records, sequenced=sequenced)
                row_counts[piece.partition.partition] += table.num_rows
                if progress is not None:
                    progress(table.num_rows)
    _look_beyond(cluster, end, transactions)
    audit = TopicAudit(
        topic=reading.topic,
        partition_rows=row_counts,
        log_start_offsets={partition.partition: offset for partition, offset in first.items()},
        end_offsets={partition.partition: offset for partition, offset in end.items()},
        sequences=check.verdict(),
        where=reading.where,
        selected_rows=None if reading.where is None else selected,
        other_rows=add.other_rows,
        unprovable_rows=add.unprovable_rows,
        transactions=transactions.verdict(),
        dead_letters=dead,
        is_compacted=compacted,
    )
    return audit, side


def _look_beyond(cluster: Cluster, end: dict[TopicPartition, int], check: TransactionCheck) -> None:
    """What a read_committed reader is not given yet: by its headers, of which transactions it is."""
    last = cluster.list_offsets(dict.fromkeys(end, LATEST_TIMESTAMP), "read_uncommitted")
    for piece in read_pieces(cluster, end, {tp: at.offset for tp, at in last.items()}, "read_uncommitted"):
        for stored in piece.batches:
            check.feed(piece.partition, stored.header, is_visible=False, marker=stored.marker, beyond=True)


def partitions_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """The partitions of a topic that must exist."""
    described = cluster.metadata([topic]).topics.get(topic)
    if described is None or described.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise SemelError(f"there is no topic {topic!r}: semel topic list shows what there is")
    if described.error_code is not ErrorCode.NONE:
        raise BrokerError(described.error_code, f"describe topic {topic!r}")
    return [TopicPartition(topic, number) for number in sorted(described.partitions)]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch as it lies in the log; ``is_visible``: it has rows, and a read_committed consumer sees them."""

    batch: memoryview
    header: BatchHeader
    is_visible: bool
    marker: MarkerType | None = None  # of a control batch


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of one partition that follow on each other; of their rows those of ``[from_offset, end_offset)``."""

    partition: TopicPartition
    batches: list[StoredBatch]
    from_offset: int
    end_offset: int
    records: memoryview  # the answer that they stand in
    aborted: tuple[tuple[int, int], ...] = ()  # of it

    def tables(
        self,
        *,
        include_headers: bool = False,
        include_timestamp_ms: bool = False,
        passes: Callable[[UnreadableBatch], bool] = lambda found: False,
        parted_by: Callable[[StoredBatch], bool] | None = None,
    ) -> Iterator[tuple[bool, pa.Table]]:
        """The visible rows as columns, each run with and without sequences, or as is said, for itself.

        ``timestamp_ms`` is as it was sent: ``timestamp`` cannot hold every one, which is no damage. A batch that nobody
        can read is an error, but where ``passes`` says that it may be missing.
        """
        visible = (stored for stored in self.batches if stored.is_visible)
        for sequenced, run in groupby(visible, parted_by or _has_sequence):
            read = tables_of(
                self.partition,
                [stored.batch for stored in run],
                self.from_offset,
                self.end_offset,
                include_headers=include_headers,
                include_timestamp_ms=include_timestamp_ms,
            )
            for found in read:
                if not isinstance(found, UnreadableBatch):
                    yield sequenced, found
                elif not passes(found):
                    raise found.with_way_on(
                        f"nothing is proven of {self.partition.topic}. Where a job has kept it, --dead-letter TOPIC "
                        "leaves it out of the proof"
                    )


def _has_sequence(stored: StoredBatch) -> bool:
    return stored.header.producer_id != NO_PRODUCER_ID and stored.header.base_sequence != NO_SEQUENCE


def read_pieces(
    cluster: Cluster,
    first: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    isolation: Isolation = "read_committed",
) -> Iterator[Piece]:
    """Every batch of ``[first, end)`` in log order per partition."""
    position = {partition: offset for partition, offset in first.items() if offset < end[partition]}
    empty_answers = 0

    def ask() -> Future[dict[TopicPartition, Fetched]]:
        return cluster.begin_fetch(
            position.copy(),
            max_wait_ms=500,
            max_bytes=FETCH_BYTES_MAX,
            partition_max_bytes=_PARTITION_BYTES_MAX,
            isolation=isolation,
        )

    asked = ask() if position else None
    while asked is not None:
        pieces = []
        for partition, fetched in asked.result().items():
            if fetched.error_code is not ErrorCode.NONE:
                raise BrokerError(fetched.error_code, f"read {partition} at offset {position[partition]}")
            piece = _piece(partition, fetched, position[partition], end[partition])
            if piece.batches:
                pieces.append(piece)
                position[partition] = piece.batches[-1].header.last_offset + 1
            if position[partition] >= end[partition]:
                del position[partition]
        empty_answers = 0 if pieces else empty_answers + 1
        if position and empty_answers >= _EMPTY_ANSWERS_MAX:
            stuck = ", ".join(f"{partition} at offset {offset}" for partition, offset in position.items())
            raise SemelError(f"the server gives no records for {stuck}, though they were there: run again")
        asked = ask() if position else None
        try:
            yield from pieces
        except GeneratorExit:
            if asked is not None:
                asked.cancel()  # the caller has had enough
            raise


def read_batches(
    cluster: Cluster, first: dict[TopicPartition, int], end: dict[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, BatchHeader, list[Record]]]:
    """Every batch of ``[first, end)`` in log order per partition, with its committed records in it."""
    for piece in read_pieces(cluster, first, end):
        for stored in piece.batches:
            records: list[Record] = []
            if stored.is_visible:
                with _naming_damage(piece):
                    records = decode_records(stored.batch)
            wanted = [r for r in records if piece.from_offset <= r.offset < piece.end_offset]
            yield piece.partition, stored.header, wanted


def _piece(partition: TopicPartition, fetched: Fetched, from_offset: int, end_offset: int) -> Piece:
    """The batches of an answer that hold offsets of the range, in one piece."""
    piece = Piece(partition, [], from_offset, end_offset, fetched.records, fetched.aborted)
    position = from_offset
    with _naming_damage(piece):
        check_progress(fetched.records)
        for stored in _judged(fetched):
            if stored.header.last_offset < position or stored.header.base_offset >= end_offset:
                continue
            piece.batches.append(stored)
            position = stored.header.last_offset + 1
    return piece


def _judged(fetched: Fetched) -> Iterator[StoredBatch]:
    """Each batch of an answer; none for rows but those that are committed (KIP-98)."""
    aborted_from = sorted((first_offset, producer_id) for producer_id, first_offset in fetched.aborted)
    aborting: set[int] = set()
    for batch, header in scan_batches(fetched.records, allow_partial_tail=True):
        while aborted_from and aborted_from[0][0] <= header.last_offset:
            aborting.add(aborted_from.pop(0)[1])
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and marker.marker_type is MarkerType.ABORT:
                aborting.discard(header.producer_id)
            yield StoredBatch(batch, header, False, None if marker is None else marker.marker_type)
        else:
            is_aborted = header.is_transactional and header.producer_id in aborting
            yield StoredBatch(batch, header, not is_aborted)


@contextmanager
def _naming_damage(piece: Piece) -> Iterator[None]:
    try:
        yield
    except CorruptRecordBatch as error:
        damage = sound_part(piece.partition, piece.records, piece.from_offset, error, piece.aborted)[1]
        raise damage.with_way_on(f"nothing is proven of {piece.partition.topic}") from None


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    policy = cluster.describe_configs([topic])[topic].get("cleanup.policy")
    return policy is not None and "compact" in (policy.value or "")
