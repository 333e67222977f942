"""Batches that other clients really encoded (``make_golden.py``): read alike, and written alike."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from semel.record.batch import Compression, Record, TimestampType, decode_header, decode_records, encode_batch
from semel.record.columnar import decode_table, partition_rows
from semel.record.control import (
    Marker,
    MarkerType,
    decode_marker,
    encode_abort_marker,
    encode_commit_marker,
)
from semel.record.partitioner import murmur2

HERE = Path(__file__).parent
Golden = list[tuple[str, bytes, list[str]]]


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_golden", HERE / "make_golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_golden = _module()


def line_of(record: Record) -> str:
    row = (record.timestamp_ms, record.key, record.value, list(record.headers))
    return str(make_golden.line_of(row))


def without_time(lines: list[str]) -> list[str]:
    return [line.split(" ", 1)[1] for line in lines]


def test_every_client_is_there(golden: Golden) -> None:
    clients = {name.rsplit("-", 1)[0] for name, _, _ in golden}
    assert {"aiokafka", "kafka-python", "librdkafka", "java"} <= clients


def test_rows_are_read_as_they_were_given(golden: Golden) -> None:
    for name, batch, rows in golden:
        if "marker" in name:
            continue
        lines = [line_of(record) for record in decode_records(batch)]
        if decode_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME:
            assert name == "java-append-time"
            assert without_time(lines) == without_time(rows)
            assert {line.split(" ")[0] for line in lines} == {"1700000009999"}
        else:
            assert lines == rows, name


def test_columns_agree_with_records(golden: Golden) -> None:
    for name, batch, _ in golden:
        table = decode_table([batch], topic="t", partition=0, include_headers=True)
        records = [] if "marker" in name else decode_records(batch)
        assert table["offset"].to_pylist() == [record.offset for record in records], name
        assert table["key"].to_pylist() == [record.key for record in records], name
        assert table["value"].to_pylist() == [record.value for record in records], name
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [r.timestamp_ms * 1000 for r in records]


def test_uncompressed_batches_are_written_byte_for_byte(golden: Golden) -> None:
    for name, batch, _ in golden:
        header = decode_header(batch)
        if header.compression is not Compression.NONE or name in ("java-append-time", "java-compacted"):
            continue
        if "marker" in name:
            continue
        again = encode_batch(
            decode_records(batch),
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            partition_leader_epoch=header.partition_leader_epoch,
        )
        assert again == batch, name


def test_markers_are_kafkas(golden: Golden) -> None:
    batches = {name: batch for name, batch, _ in golden}
    assert encode_abort_marker(4000, 3, 7, 1_700_000_000_000) == batches["java-marker-abort"]
    assert encode_commit_marker(4000, 3, 7, 1_700_000_000_000) == batches["java-marker-commit"]
    expected = Marker(MarkerType.ABORT, 0, 1_700_000_000_000, 4000, 3, 7)
    assert decode_marker(batches["java-marker-abort"]) == expected


def test_murmur2_is_kafkas() -> None:
    vectors = [
        (bytes.fromhex(key), signed) for key, signed in json.loads((HERE / "golden/murmur2.json").read_text())
    ]
    vectors += [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)]
    for key, signed in vectors:
        assert murmur2(key) == signed & 0x7FFF_FFFF
    keys = pa.array([key for key, _ in vectors], pa.binary())
    assert partition_rows(keys, 12).tolist() == [(signed & 0x7FFF_FFFF) % 12 for _, signed in vectors]


@pytest.mark.kafka
def test_kafka_reads_what_semel_writes(java_tool: Any) -> None:
    large = Record(0, 5, b"k", bytes(range(256)) * 800)  # past one lz4 block and six snappy chunks
    records = [Record(0, ts, key, value, tuple(headers)) for ts, key, value, headers in make_golden.ROWS]
    batches = [encode_batch([*records, large], compression=compression) for compression in Compression]
    answer = make_golden.run_java(
        str(java_tool.java), str(java_tool.jars), "read", [batch.hex() for batch in batches]
    )
    expected = [line_of(record) for record in [*records, large]] + [""]
    assert answer == expected * len(batches)
