"""From columns of records to rows of a store: those that the condition holds for, by identity and order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.audit.columns import RowUnreadable, texts_of
from semel.audit.contents import Contents
from semel.audit.identity import By, IdentityRule, IdentityUnreadable, KeyFrom
from semel.audit.sequences import PRODUCERS_MAX_DEFAULT
from semel.audit.store import ROWS_MAX_DEFAULT, Rows
from semel.core.flow.lineage import LINEAGE_HEADER, Lineage
from semel.core.land.columns import HEADERS
from semel.errors import SemelError
from semel.record.batch import Record
from semel.record.where import ConditionFailed, compile_value, compile_where
from semel.types import TopicPartition

ADVICE: Final = "say with --key or --key-from what names a row"


@dataclass(frozen=True, slots=True)
class TopicReading:
    """What to read of one topic, and how its rows are named and ordered. ``order`` None: order does not matter."""

    topic: str
    identity: IdentityRule
    order: IdentityRule | None
    where: str | None = None
    rows_max: int = ROWS_MAX_DEFAULT
    examples_max: int = 10
    producers_max: int = PRODUCERS_MAX_DEFAULT
    by: By = By.CONTENT
    contents: Contents | None = None  # what a row has to hold beside its identity
    value: str | None = None  # SQL that makes the value of a row, before it is looked at
    names_topic: bool = False  # with PLACE: the topic is a part of it, for every side has it in a column
    lineage_of: str | None = None  # with LINEAGE, of an output: the input as headers name it, TOPIC@ID
    # Of the topic whose records these rows came of, by partition: what lies below has nothing to be held against.
    log_start_offsets: Mapping[int, int] = field(default_factory=dict)
    dead_letter_topic: str | None = None  # has the batches that nobody can read; they are left out
    dead_letter_bootstrap: str = ""  # of the cluster that it is in; "": this one

    @property
    def wants_headers(self) -> bool:
        """Whether records are to come with their headers."""
        return self.lineage_of is not None or (
            self.contents is not None and HEADERS in self.contents.columns.names
        )

    @property
    def wants_timestamp_ms(self) -> bool:
        """Whether records are to come with their times as they were sent."""
        return self.where is not None or self.value is not None


class Adding:
    """Takes columns ``key``, ``value`` and ``offset`` into one side of a store.

    With lineage ``headers``, too, with a condition or an expression ``timestamp_ms``, and with contents all others.
    """

    def __init__(self, rows: Rows, reading: TopicReading) -> None:
        self._rows, self._reading = rows, reading
        self._select = None if reading.where is None else compile_where(reading.where)
        self._identity = texts_of(reading.identity)
        self._order = None if reading.order is None else texts_of(reading.order)
        self._mapped = value_mapper(reading)
        self.other_rows = 0  # whose lineage is of another topic
        self.unprovable_rows = 0  # whose lineage is of a record below its log's start

    def __call__(self, partition: TopicPartition, records: pa.RecordBatch, *, sequenced: bool) -> int:
        """How many were taken."""
        if self._select is not None:
            records = self._selected(partition, records)
        records = self._mapped(partition, records)
        if self._reading.lineage_of is not None:
            return self._add_lineages(partition, records)
        keys, values, offsets = (records.column(name) for name in ("key", "value", "offset"))
        try:
            if self._reading.by is By.CONTENT:
                texts = self._identity(keys, values)
            else:
                texts = places(pa.repeat(partition.partition, len(offsets)), offsets)
            if texts.null_count:
                raise RowUnreadable(
                    int(np.argmax(np.asarray(texts.is_null()))),
                    f"its {_what_names(self._reading.identity)} is null",
                )
            order_texts = None if self._order is None else self._order(keys, values)
        except RowUnreadable as error:
            raise IdentityUnreadable(
                f"{partition} offset {offsets[error.row]} has no identity: {error}; {ADVICE}"
            ) from None
        of = self._reading.contents
        contents = None if of is None else of.texts(of.of_records(partition.partition, records))
        self._rows.add(
            partition.partition,
            np.asarray(offsets),
            texts,
            order_texts,
            sequenced=sequenced,
            contents=contents,
        )
        return len(offsets)

    def _add_lineages(self, partition: TopicPartition, records: pa.RecordBatch) -> int:
        texts, numbers, kept, below_start = [], [], [], []
        log_start_offsets = self._reading.log_start_offsets
        topic = str(self._reading.lineage_of).partition("@")[0]
        for row, headers in enumerate(records.column("headers").to_pylist()):
            found = [each["value"] for each in headers or () if each["key"] == LINEAGE_HEADER]
            lineage = Lineage.read(found[-1]) if found and found[-1] is not None else None
            if lineage is None:
                raise IdentityUnreadable(
                    f"{partition} offset {records.column('offset')[row]} has no header {LINEAGE_HEADER!r} that says "
                    "which row it came of"
                )
            if lineage.topic != topic:
                self.other_rows += 1
                continue
            of = f"{lineage.topic}@{lineage.topic_id}" if lineage.topic_id else lineage.topic
            another = (
                "" if of in (topic, self._reading.lineage_of) else f"{of}/"
            )  # a topic of the name before
            texts.append(f"{another}{lineage.partition}/{lineage.offset}".encode())
            numbers.append(lineage.index)
            below_start.append(not another and lineage.offset < log_start_offsets.get(lineage.partition, 0))
            kept.append(row)
        offsets = np.asarray(records.column("offset").take(pa.array(kept, pa.int64())))
        self._rows.add(
            partition.partition,
            offsets,
            pa.array(texts, pa.binary()),
            numbers=pa.array(numbers, pa.uint64()),
            below_start=pa.array(below_start, pa.bool_()),
        )
        self.unprovable_rows += sum(below_start)
        return len(kept)

    def _selected(self, partition: TopicPartition, records: pa.RecordBatch) -> pa.RecordBatch:
        assert self._select is not None
        rows = _as_records(records)
        with _naming(partition):
            chosen = {record.offset for record in self._select(partition.partition, rows)}
        return records.take(pa.array([n for n, row in enumerate(rows) if row.offset in chosen], pa.int64()))


def _what_names(rule: IdentityRule) -> str:
    if rule.fields:
        return f"field {rule.fields[0]!r}"
    return "value" if rule.key_from is KeyFrom.VALUE else "key"


def value_mapper(reading: TopicReading) -> Callable[[TopicPartition, pa.RecordBatch], pa.RecordBatch]:
    """What gives records the values that they are compared by."""
    if reading.value is None:
        return lambda partition, records: records
    value_of = compile_value(reading.value)

    def mapped(partition: TopicPartition, records: pa.RecordBatch) -> pa.RecordBatch:
        with _naming(partition):
            values = value_of(partition.partition, _as_records(records))
        at = records.schema.get_field_index("value")
        return records.set_column(at, "value", pa.array(values, pa.binary()))

    return mapped


@contextmanager
def _naming(partition: TopicPartition) -> Iterator[None]:
    try:
        yield
    except ConditionFailed as error:
        raise SemelError(f"{partition} {error}") from None


def _as_records(records: pa.RecordBatch) -> list[Record]:
    columns = [records.column(name).to_pylist() for name in ("offset", "timestamp_ms", "key", "value")]
    return [Record(*row) for row in zip(*columns, strict=True)]


def places(partitions: pa.Array, offsets: pa.Array) -> pa.Array:
    """What names a row by its place, as text: of a topic's row, or of the row that one came of."""
    texts = [column.cast(pa.string()).cast(pa.binary()) for column in (partitions, offsets)]
    return pc.binary_join_element_wise(*texts, b"/")


def columns_of(keys: list[bytes | None], values: list[bytes | None], first_offset: int) -> pa.RecordBatch:
    """Columns for :class:`Adding`, of rows that stand in no log."""
    count = len(keys)
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": np.arange(first_offset, first_offset + count, dtype=np.int64),
            "timestamp_ms": np.full(count, -1, dtype=np.int64),
        }
    )
