"""Whole batches: what is written is read, and what is damaged is refused."""

import struct

import pytest

from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    HEADER_BYTES,
    Compression,
    Record,
    TimestampType,
    assemble_batch,
    assign_offsets,
    decode_header,
    decode_records,
    encode_batch,
    scan_batches,
    validate_batch,
)

RECORDS = [
    Record(0, 1000, b"k", b"v"),
    Record(1, 999, None, b""),
    Record(2, 1005, b"", None, (("h", b"1"), ("h", None), ("ü", b""))),
]


@pytest.mark.parametrize("compression", Compression)
def test_records_come_back(compression: Compression) -> None:
    batch = encode_batch(RECORDS, compression=compression)
    assert decode_records(batch) == RECORDS
    assert decode_header(batch).compression is compression


def test_the_header_says_what_was_asked_for() -> None:
    batch = encode_batch(
        RECORDS,
        base_offset=7,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        partition_leader_epoch=9,
        transactional=True,
    )
    header = validate_batch(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 9, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (2**40, 3, 9)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 2, 0)
    assert header.is_transactional and not header.is_control and header.is_dense
    assert header.timestamp_type is TimestampType.CREATE_TIME


def test_a_batch_without_producer_has_no_last_sequence() -> None:
    assert decode_header(encode_batch(RECORDS)).last_sequence == -1


def test_an_empty_batch_is_not_written() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


def test_a_compacted_batch_may_be_empty() -> None:
    batch = assemble_batch(b"", record_count=0, last_offset_delta=4)
    assert decode_records(batch) == []
    assert decode_header(batch).last_offset == 4
    assert not decode_header(batch).is_dense


def test_assigned_offsets_leave_the_crc_alone() -> None:
    batch = encode_batch(RECORDS)
    crc = decode_header(batch).crc
    assign_offsets(batch, 100, 5)
    header = validate_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (100, 5, crc)
    assert [record.offset for record in decode_records(batch)] == [100, 101, 102]


def test_append_time_replaces_every_timestamp() -> None:
    batch = encode_batch(RECORDS)
    assign_offsets(batch, 0, 0, append_time_ms=5_000)
    assert validate_batch(batch).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in decode_records(batch)} == {5_000}


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_named(magic: int) -> None:
    batch = encode_batch(RECORDS)
    batch[16] = magic
    with pytest.raises(CorruptRecordBatch, match=f"message format {magic} is too old"):
        decode_header(batch)
    with pytest.raises(CorruptRecordBatch, match="too old"):
        decode_header(batch[:34])  # a whole old message may be shorter than our header


def test_every_flipped_bit_is_found() -> None:
    batch = encode_batch(RECORDS)
    for at in [*range(8, 12), *range(16, len(batch))]:  # offset and leader epoch are the log's
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[at] ^= 1 << bit
            with pytest.raises(CorruptRecordBatch):
                decode_records(damaged)


def test_every_cut_is_found() -> None:
    batch = encode_batch(RECORDS)
    for size in range(len(batch)):
        with pytest.raises(CorruptRecordBatch):
            decode_records(batch[:size])
    with pytest.raises(CorruptRecordBatch, match="1 bytes follow"):
        decode_records(batch + b"\0")


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        (0, ">q", -1),
        (8, ">i", 48),
        (8, ">i", -1),
        (16, ">b", 3),
        (21, ">h", 5),
        (23, ">i", -1),
        (57, ">i", -1),
        (57, ">i", 4),
    ],
)
def test_impossible_headers_are_refused_before_the_crc(at: int, layout: str, value: int) -> None:
    batch = encode_batch(RECORDS)
    struct.pack_into(layout, batch, at, value)
    with pytest.raises(CorruptRecordBatch):
        decode_header(batch)


def test_a_count_that_cannot_be_is_refused_before_it_is_allocated() -> None:
    batch = assemble_batch(b"", record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    with pytest.raises(CorruptRecordBatch, match="hold at most 0"):
        decode_header(batch)
    packed = Compression.LZ4
    compressed = assemble_batch(
        b"\0" * 70, record_count=2**31 - 1, last_offset_delta=2**31 - 2, compression=packed
    )
    with pytest.raises(CorruptRecordBatch, match="hold at most"):
        decode_header(compressed)
    compressed = assemble_batch(b"\0" * 70, record_count=1000, last_offset_delta=999, compression=packed)
    with pytest.raises(CorruptRecordBatch, match="hold at most 10"):
        decode_records(compressed)


def test_offset_deltas_may_have_gaps_but_never_fall() -> None:
    def batch_of(*deltas: int) -> bytearray:
        payload = b"".join(bytes([12, 0, 0, delta << 1, 1, 1, 0]) for delta in deltas)
        return assemble_batch(payload, record_count=len(deltas), last_offset_delta=5)

    assert [record.offset for record in decode_records(batch_of(0, 3, 5))] == [0, 3, 5]
    for deltas in [(0, 0), (3, 1), (0, 6)]:
        with pytest.raises(CorruptRecordBatch, match="offset delta"):
            decode_records(batch_of(*deltas))


def test_a_scan_yields_each_batch() -> None:
    first, second = encode_batch(RECORDS), encode_batch(RECORDS, compression=Compression.GZIP)
    found = list(scan_batches(first + second))
    assert [bytes(batch) for batch, _ in found] == [bytes(first), bytes(second)]
    assert [header.size_bytes for _, header in found] == [len(first), len(second)]


def test_a_cut_tail_is_an_error_unless_allowed() -> None:
    first, second = encode_batch(RECORDS), encode_batch(RECORDS)
    for cut in (1, HEADER_BYTES - 1, HEADER_BYTES, len(second) - 1):
        answer = first + second[:cut]
        assert len(list(scan_batches(answer, allow_partial_tail=True))) == 1
        with pytest.raises(CorruptRecordBatch):
            list(scan_batches(answer))
