"""Columns say what records say: decode_table against decode_records, encode_columns against both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    Compression,
    Record,
    TimestampType,
    assemble_batch,
    assign_offsets,
    decode_header,
    decode_records,
    encode_batch,
    encode_payload,
)
from semel.record.columnar import (
    HEADERS_TYPE,
    decode_table,
    encode_columns,
    partition_rows,
    table_schema,
)
from semel.record.control import encode_abort_marker
from semel.record.partitioner import partition_for_key

Strategy = Callable[..., st.SearchStrategy[list[Record]]]
SETTINGS = settings(
    max_examples=settings().max_examples * 3 // 5,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def rows_of(table: pa.Table) -> list[Record]:
    table = table.set_column(5, "timestamp", table["timestamp"].cast(pa.int64()))
    return [
        Record(
            row["offset"],
            row["timestamp"] // 1000,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in table.to_pylist()
    ]


def table_of(*batches: bytes | bytearray, **options: Any) -> pa.Table:
    return decode_table(batches, topic="t", partition=3, include_headers=True, **options)


def columns_of(records: list[Record]) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    return (
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.timestamp_ms for record in records], pa.int64()),
        pa.array([[{"key": k, "value": v} for k, v in record.headers] for record in records], HEADERS_TYPE),
    )


def test_decoding_columns_equals_decoding_records(record_lists: Strategy) -> None:
    @SETTINGS
    @given(records=record_lists(), compression=st.sampled_from(Compression), cut=st.integers(0, 70))
    def check(records: list[Record], compression: Compression, cut: int) -> None:
        parts = [part for part in (records[:cut], records[cut:]) if part]
        batches = [encode_batch(p, base_offset=p[0].offset, compression=compression) for p in parts]
        expected = [record for batch in batches for record in decode_records(batch)]
        assert expected == records
        assert rows_of(table_of(*batches)) == expected
        assert rows_of(table_of(b"".join(batches), from_offset=2, end_offset=5)) == expected[2:5]

    check()


def test_encoding_columns_equals_encoding_records(record_lists: Strategy) -> None:
    @SETTINGS
    @given(records=record_lists(), rows_max=st.integers(1, 80), bytes_max=st.integers(1, 20_000))
    def check(records: list[Record], rows_max: int, bytes_max: int) -> None:
        batches = encode_columns(
            *columns_of(records),
            producer_id=1,
            producer_epoch=0,
            base_sequence=2**31 - 3,
            batch_rows_max=rows_max,
            batch_bytes_max=bytes_max,
        )
        start = 0
        for batch in batches:
            header = decode_header(batch)
            part = records[start : start + header.record_count]
            assert len(part) <= rows_max and (len(part) == 1 or len(batch) <= bytes_max)
            assert batch == encode_batch(
                part, producer_id=1, producer_epoch=0, base_sequence=(2**31 - 3 + start) % 2**31
            )
            start += len(part)
        assert start == len(records)

    check()


def test_encoding_takes_slices_chunks_and_strings() -> None:
    keys = pa.array(["no", "a", None, "ü", "no"])[1:4]
    values = pa.chunked_array([pa.array([b"1"]), pa.array([b"2", b"3"])])
    (batch,) = encode_columns(keys, values, 5, compression=Compression.ZSTD)
    assert [(r.key, r.value) for r in decode_records(batch)] == [
        (b"a", b"1"),
        (None, b"2"),
        ("ü".encode(), b"3"),
    ]
    (batch,) = encode_columns(None, values, pa.array([1, 2, 3], pa.timestamp("s", "UTC")))
    assert [(r.key, r.timestamp_ms) for r in decode_records(batch)] == [
        (None, 1000),
        (None, 2000),
        (None, 3000),
    ]
    assert encode_columns(None, pa.array([], pa.binary()), 5) == []


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="key has 1 rows"):
        encode_columns(pa.array([b"k"]), pa.array([b"v", b"w"]), 5)


def test_more_records_than_a_block() -> None:
    values = pa.array([str(number) for number in range(100_000)])
    batches = encode_columns(None, values, 7, batch_rows_max=70_000, batch_bytes_max=10_000_000)
    assign_offsets(batches[1], 70_000, 0)
    table = table_of(*batches, from_offset=10)
    assert table["offset"].to_pylist() == list(range(10, 100_000))
    assert table["value"].cast(pa.string()).to_pylist() == values.to_pylist()[10:]


def test_the_table_has_the_columns_of_sparks_source() -> None:
    batch = encode_batch([Record(0, 1_234, b"k", b"v")])
    assign_offsets(batch, 8, 0, append_time_ms=99)
    table = decode_table([batch, encode_abort_marker(1, 0, 0, 5)], topic="t", partition=3)
    assert table.schema == table_schema()
    (row,) = table.to_pylist()
    assert (row["topic"], row["partition"], row["offset"], row["timestampType"]) == ("t", 3, 8, 1)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [99_000]
    assert decode_table([], topic="t", partition=0, include_headers=True).schema == table_schema(
        include_headers=True
    )


def test_damage_is_refused_alike(record_lists: Strategy) -> None:
    """Damage under a right CRC: what a hostile client can send."""

    @settings(SETTINGS, max_examples=settings().max_examples * 3 // 2)
    @given(records=record_lists(), data=st.data())
    def check(records: list[Record], data: st.DataObject) -> None:
        payload = bytearray(memoryview(encode_batch(records))[61:])
        for _ in range(data.draw(st.integers(1, 3))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        batch = assemble_batch(payload, record_count=len(records), last_offset_delta=len(records) - 1)
        try:
            expected = decode_records(batch)
        except CorruptRecordBatch:
            with pytest.raises(CorruptRecordBatch):
                table_of(batch)
            return
        if all(abs(record.timestamp_ms) <= (2**63 - 1) // 1000 for record in expected):
            assert rows_of(table_of(batch)) == expected
        assert with_ms(batch)["timestamp_ms"].to_pylist() == [record.timestamp_ms for record in expected]

    check()


def test_a_timestamp_beyond_microseconds_is_null() -> None:
    times = [1, 2**62, -(2**62), 2]
    batch = encode_batch([Record(0, time, None, b"v") for time in times])
    table = decode_table([batch], topic="t", partition=3)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_000, None, None, 2_000]
    kept = decode_table([batch], topic="t", partition=3, from_offset=2)
    assert kept["timestamp"].cast(pa.int64()).to_pylist() == [None, 2_000]


def with_ms(*batches: bytes | bytearray, **choices: Any) -> pa.Table:
    return decode_table(batches, topic="t", partition=3, include_timestamp_ms=True, **choices)


def test_milliseconds_are_as_they_were_sent() -> None:
    times = [1, 2**62, -(2**62), 2]
    rows = [Record(0, time, None, b"v") for time in times]
    batch = encode_batch(rows)
    assert with_ms(batch)["timestamp_ms"].to_pylist() == times
    assert with_ms(batch, from_offset=2)["timestamp_ms"].to_pylist() == times[2:]
    stamped = encode_batch(rows, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert with_ms(stamped)["timestamp_ms"].to_pylist() == [2**62] * 4
    assert with_ms(batch, include_headers=True).schema.names[-2:] == ["headers", "timestamp_ms"]


def test_a_time_that_64_bits_cannot_hold_wraps_as_in_java() -> None:
    payload = encode_payload([Record(0, 1, None, b"a"), Record(0, 2, None, b"b")], 0)
    batch = assemble_batch(payload, record_count=2, last_offset_delta=1, base_timestamp=2**63 - 2)
    assert with_ms(batch)["timestamp_ms"].to_pylist() == [2**63 - 1, -(2**63)]
    assert [record.timestamp_ms for record in decode_records(batch)] == [2**63 - 1, -(2**63)]
    again = encode_batch(decode_records(batch))
    assert decode_records(again) == decode_records(batch)


def test_a_header_key_that_is_no_utf8_is_read_as_java_reads_it() -> None:
    """``new String(bytes, UTF_8)``: one U+FFFD for each part of a character that is none."""
    payload = encode_payload([Record(0, 1, b"k", b"a", (("a??b", b"1"), ("c", None)))], 0)
    payload = payload.replace(b"a??b", b"a\xff\xc3b")
    batch = assemble_batch(payload, record_count=1, last_offset_delta=0)
    (record,) = decode_records(batch)
    assert record.headers == (("a\ufffd\ufffdb", b"1"), ("c", None))
    assert rows_of(table_of(batch)) == [record]
    assert decode_table([batch], topic="t", partition=3)["key"].to_pylist() == [b"k"]
    raw = decode_table([batch], topic="t", partition=3, include_headers=True, raw_header_keys=True)
    columns = [raw.column(name).combine_chunks() for name in ("key", "value")]
    (copied,) = encode_columns(*columns, 1, raw.column("headers").combine_chunks())
    assert b"a\xff\xc3b" in copied


@given(
    keys=st.lists(st.none() | st.binary(max_size=30) | st.sampled_from([b"k" * 999]), max_size=80),
    count=st.integers(1, 50),
)
def test_partitions_equal_the_scalar_ones(keys: list[bytes | None], count: int) -> None:
    expected = [-1 if key is None else partition_for_key(key, count) for key in keys]
    column = pa.array(keys, pa.binary())
    assert partition_rows(column, count).tolist() == expected
    assert partition_rows(column[1:], count).tolist() == expected[1:]
    assert partition_rows(pa.chunked_array([column, column]), count).tolist() == expected * 2
