"""Reads a topic once, from its start to the end it has now, into what the checks need.

What is read is what a read_committed consumer sees: control batches and aborted transactions are no rows,
though their headers are judged. The end is fixed when reading begins, so a topic that is written to meanwhile
can be audited. In memory at a time: one fetch answer (``FETCH_BYTES_MAX``) beside the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from semel.audit.checks import Place
from semel.audit.identity import IdentityRule, IdentityUnreadable, digest
from semel.audit.report import TopicAudit
from semel.audit.rows import ROWS_MAX_DEFAULT, RowIndex, RowIndexBuilder
from semel.audit.sequences import PRODUCERS_MAX_DEFAULT, SequenceCheck
from semel.audit.where import ConditionFailed, compile_where
from semel.client.blocking import Cluster
from semel.client.model import Fetched
from semel.client.unreadable import check_progress, sound_part
from semel.errors import BrokerError, CorruptRecordBatch, ErrorCode, SemelError, UnreadableBatch
from semel.record.batch import BatchHeader, Record, decode_records, scan_batches
from semel.record.control import MarkerType, decode_marker
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_SEQUENCE, TopicPartition

FETCH_BYTES_MAX = 16 * 1024 * 1024
_PARTITION_BYTES_MAX = 4 * 1024 * 1024
_CHUNK_ROWS = 10_000  # of rows that stand in no log
_EMPTY_ANSWERS_MAX = 20  # in a row, before a partition that does not get on is given up

Progress = Callable[[int], None]  # is told of rows read since the last time


@dataclass(frozen=True, slots=True)
class TopicReading:
    """What to read of one topic, and how its rows are named and ordered. ``order`` None: by record key."""

    topic: str
    identity: IdentityRule
    order: IdentityRule
    where: str | None = None
    rows_max: int = ROWS_MAX_DEFAULT
    examples_max: int = 10
    producers_max: int = PRODUCERS_MAX_DEFAULT


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows that stand in no log, as in a file: their name, and a way to read them, each time from the first on."""

    name: str
    read: Callable[[], Iterable[tuple[bytes | None, bytes | None]]]  # (key, value)


def read_rows(
    rows: InputRows, reading: TopicReading, progress: Progress | None = None
) -> tuple[TopicAudit, RowIndex]:
    """Index rows as if they were one partition; the first line is offset 0."""
    builder = RowIndexBuilder(rows.name, reading.rows_max)
    add = _Adding(builder, reading)
    partition, count, selected = TopicPartition(rows.name, 0), 0, 0
    lines = (Record(number, -1, key, value) for number, (key, value) in enumerate(rows.read()))
    while chunk := list(islice(lines, _CHUNK_ROWS)):
        selected += add(partition, chunk, sequenced=True)
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
    )
    return audit, builder.build()


def row_count(cluster: Cluster, topic: str) -> int:
    """About how many rows there are to read: the offsets between start and end."""
    partitions = partitions_of(cluster, topic)
    first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    return sum(end[partition].offset - first[partition].offset for partition in partitions)


def read_topic(
    cluster: Cluster, reading: TopicReading, progress: Progress | None = None
) -> tuple[TopicAudit, RowIndex]:
    """Index every row of the topic, and judge its producers on the way."""
    partitions = partitions_of(cluster, reading.topic)
    first = {
        p: at.offset for p, at in cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP)).items()
    }
    end = {
        p: at.offset for p, at in cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP)).items()
    }
    compacted = _is_compacted(cluster, reading.topic)
    builder = RowIndexBuilder(reading.topic, reading.rows_max)
    check = SequenceCheck(reading.examples_max, reading.producers_max)
    for partition in partitions:
        check.begin(partition, log_start_offset=first[partition], compacted=compacted)
    row_count = dict.fromkeys((partition.partition for partition in partitions), 0)
    add, selected = _Adding(builder, reading), 0
    for partition, header, records in read_batches(cluster, first, end):
        check.feed(partition, header)
        if records:
            selected += add(partition, records, sequenced=header.base_sequence != NO_SEQUENCE)
            row_count[partition.partition] += len(records)
            if progress is not None:
                progress(len(records))
    audit = TopicAudit(
        topic=reading.topic,
        partition_rows=row_count,
        log_start_offsets={partition.partition: offset for partition, offset in first.items()},
        end_offsets={partition.partition: offset for partition, offset in end.items()},
        sequences=check.verdict(),
        where=reading.where,
        selected_rows=None if reading.where is None else selected,
    )
    return audit, builder.build()


def partitions_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """The partitions of a topic that must exist."""
    described = cluster.metadata([topic]).topics.get(topic)
    if described is None or described.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise SemelError(f"there is no topic {topic!r}: semel topic list shows what there is")
    if described.error_code is not ErrorCode.NONE:
        raise BrokerError(described.error_code, f"describe topic {topic!r}")
    return [TopicPartition(topic, number) for number in sorted(described.partitions)]


def read_batches(
    cluster: Cluster, first: dict[TopicPartition, int], end: dict[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, BatchHeader, list[Record]]]:
    """Every batch of ``[first, end)`` in log order per partition, with its committed records in it."""
    position = {partition: offset for partition, offset in first.items() if offset < end[partition]}
    empty_answers = 0
    while position:
        answers = cluster.fetch(
            position, max_wait_ms=500, max_bytes=FETCH_BYTES_MAX, partition_max_bytes=_PARTITION_BYTES_MAX
        )
        got_on = False
        for partition, fetched in answers.items():
            if fetched.error_code is not ErrorCode.NONE:
                raise BrokerError(fetched.error_code, f"read {partition} at offset {position[partition]}")
            for header, records in _committed(fetched, partition, position[partition]):
                if header.last_offset < position[partition] or header.base_offset >= end[partition]:
                    continue
                wanted = [r for r in records if position[partition] <= r.offset < end[partition]]
                yield partition, header, wanted
                position[partition] = header.last_offset + 1
                got_on = True
            if position[partition] >= end[partition]:
                del position[partition]
        empty_answers = 0 if got_on else empty_answers + 1
        if empty_answers >= _EMPTY_ANSWERS_MAX:
            stuck = ", ".join(f"{partition} at offset {offset}" for partition, offset in position.items())
            raise SemelError(f"the server gives no records for {stuck}, though they were there: run again")


def name_places(
    cluster: Cluster,
    places: Iterable[Place],
    source: str | InputRows | None,
    output_topic: str,
    rules: Rules,
) -> dict[Place, str]:
    """The identity of rows that a finding points at, read again; rows that are gone stay without a name."""
    names: dict[Place, str] = {}
    wanted = set(places)
    if isinstance(source, InputRows):
        in_file = {place.offset: place for place in wanted if place.in_input}
        wanted -= set(in_file.values())
        last = max(in_file, default=-1)
        for number, (key, value) in enumerate(islice(source.read(), last + 1)):
            if number in in_file:
                names[in_file[number]] = rules[True].readable(key, value)
    for place in wanted:
        topic = source if place.in_input and isinstance(source, str) else output_topic
        partition = TopicPartition(topic, place.partition)
        for _, _, records in read_batches(cluster, {partition: place.offset}, {partition: place.offset + 1}):
            for record in records:
                names[place] = rules[place.in_input].readable(record.key, record.value)
    return names


Rules = dict[bool, IdentityRule]  # True: the input's, False: the output's


class _Adding:
    """Takes records into an index: those that the condition holds for, if there is one."""

    def __init__(self, builder: RowIndexBuilder, reading: TopicReading) -> None:
        self._builder = builder
        self._select = None if reading.where is None else compile_where(reading.where)
        self._identity, self._order = reading.identity.compile(), reading.order.compile()

    def __call__(self, partition: TopicPartition, records: list[Record], *, sequenced: bool) -> int:
        """How many were taken."""
        if self._select is not None:
            try:
                records = self._select(partition.partition, records)
            except ConditionFailed as error:
                raise SemelError(f"{partition} offset {error.offset}: --where: {error.why}") from None
        identities, order_texts = [], []
        try:
            for record in records:
                text = self._identity(record.key, record.value)
                if text is None:
                    raise IdentityUnreadable("its key is null")
                identities.append(digest(text))
                order_texts.append(self._order(record.key, record.value))
        except IdentityUnreadable as error:
            offset = records[max(len(identities), len(order_texts))].offset
            raise IdentityUnreadable(
                f"{partition} offset {offset} has no identity: {error}; "
                "say with --key or --key-from what names a row"
            ) from None
        offsets = np.fromiter((record.offset for record in records), np.int64, len(records))
        self._builder.add(partition.partition, offsets, identities, order_texts, sequenced=sequenced)
        return len(records)


def _committed(
    fetched: Fetched, partition: TopicPartition, from_offset: int
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Each batch of an answer with its records; none for control and aborted ones (KIP-98)."""
    try:
        check_progress(fetched.records)
        yield from _committed_batches(fetched)
    except CorruptRecordBatch as error:
        damage = sound_part(partition, fetched.records, from_offset, error)[1]
        raise UnreadableBatch(
            partition,
            damage.offset,
            damage.next_offset,
            damage.why,
            f"nothing is proven of {partition.topic}",
        ) from None


def _committed_batches(fetched: Fetched) -> Iterator[tuple[BatchHeader, list[Record]]]:
    aborted_from = sorted((first_offset, producer_id) for producer_id, first_offset in fetched.aborted)
    aborting: set[int] = set()
    for batch, header in scan_batches(fetched.records, allow_partial_tail=True):
        while aborted_from and aborted_from[0][0] <= header.last_offset:
            aborting.add(aborted_from.pop(0)[1])
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and marker.marker_type is MarkerType.ABORT:
                aborting.discard(header.producer_id)
            yield header, []
        elif header.is_transactional and header.producer_id in aborting:
            yield header, []
        else:
            yield header, decode_records(batch)


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    policy = cluster.describe_configs([topic])[topic].get("cleanup.policy")
    return policy is not None and "compact" in (policy.value or "")
