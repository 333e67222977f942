"""A batch in another codec has the same records, and one that is not what its header says is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    BatchHeader,
    Record,
    assemble_batch,
    decode_header,
    decode_records,
    encode_batch,
    payload_of,
    validate_batch,
)
from semel.record.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression
from semel.record.index import BLOCK_RECORDS_MAX
from semel.record.recompression import HEADERS_MAX, recompress
from semel.record.records import encode_payload

BYTES = st.none() | st.binary(max_size=60)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 2**45), BYTES, BYTES, HEADERS), min_size=1, max_size=40
)
CODECS = st.sampled_from(Compression)
LEVELS = {
    Compression.GZIP: st.sampled_from([-1, 1, 9]),
    Compression.LZ4: st.none() | st.integers(1, 17),
    Compression.ZSTD: st.sampled_from([-131_072, -1, 1, 3, 19]),
}


def recompressed(
    batch: Buffer,
    header: BatchHeader,
    compression: Compression,
    level: int | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    payload = bytes(payload_of(batch, header, decompressed_bytes_max=decompressed_bytes_max))
    return recompress(payload, header, compression, level)


@given(st.data(), RECORDS, CODECS, CODECS, st.integers(0, 2**31 - 100), st.booleans())
def test_the_records_stay(
    data: st.DataObject,
    records: list[Record],
    before: Compression,
    after: Compression,
    base_sequence: int,
    idempotent: bool,
) -> None:
    producer = {"producer_id": 77, "producer_epoch": 3, "base_sequence": base_sequence} if idempotent else {}
    batch = encode_batch(records, base_offset=5, compression=before, partition_leader_epoch=2, **producer)
    header = decode_header(batch)
    level = data.draw(LEVELS.get(after, st.none()))
    again = recompressed(memoryview(batch), header, after, level)
    found = validate_batch(again)
    assert decode_records(again) == decode_records(batch)
    assert found.compression is after
    size_and_codec = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert found._replace(**size_and_codec) == header._replace(**size_and_codec)


def test_more_records_than_a_block() -> None:
    records = [Record(0, 1000 + n % 7, None, b"%d" % n) for n in range(BLOCK_RECORDS_MAX + 10)]
    batch = encode_batch(records)
    again = recompressed(batch, decode_header(batch), Compression.ZSTD)
    assert decode_records(again) == decode_records(batch)


def test_the_largest_timestamp_is_the_records_own() -> None:
    payload = encode_payload([Record(0, 50, None, b"a"), Record(0, 90, None, b"b")], 50)
    batch = assemble_batch(
        payload, record_count=2, last_offset_delta=1, base_timestamp=50, max_timestamp=7_000_000
    )
    assert decode_header(recompressed(batch, decode_header(batch), Compression.GZIP)).max_timestamp == 90


@pytest.mark.parametrize("records", [1, 2])
def test_more_headers_than_anybody_has_are_refused(records: int) -> None:
    """Each takes two bytes there and, once it is read, a hundred."""
    few = (("", None),) * 1000
    allowed = [Record(0, 0, None, None, few)] * records
    batch = encode_batch(allowed, compression=Compression.ZSTD)
    assert recompressed(batch, decode_header(batch), Compression.GZIP)
    many = (("", None),) * (HEADERS_MAX // records + 1)
    batch = encode_batch([Record(0, 0, None, None, many)] * records, compression=Compression.ZSTD)
    with pytest.raises(CorruptRecordBatch, match="headers that are left"):
        recompressed(batch, decode_header(batch), Compression.GZIP)


def payload_with(*deltas: int) -> bytes:
    """Records with these offset deltas."""
    return b"".join(
        bytes([len(body) * 2]) + body
        for body in (b"\0\0" + bytes([delta * 2]) + b"\x01\x01\0" for delta in deltas)
    )


ROTTEN = {
    "an offset twice": (payload_with(0, 0), 2),
    "an offset left out": (payload_with(0, 2), 2),
    "offsets from 1 on": (payload_with(1, 2), 2),
    "a record too few": (payload_with(0), 2),
    "a record too many": (payload_with(0, 1, 2), 2),
    "bytes behind": (payload_with(0, 1) + b"x", 2),
    "rubbish": (b"\x77" * 40, 2),
    "zeros": (bytes(40), 2),
}


READ_BY_JAVA = {
    "a header key that is not UTF-8": b"\x12\0\0\0\x01\x01\x02\x02\xff\x01",
    "a time beyond 64 bits": b"\x1e\0" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0\x01\x01\0",
}


@pytest.mark.parametrize("what", READ_BY_JAVA)
def test_what_kafkas_clients_read_is_taken_as_it_is(what: str) -> None:
    payload = READ_BY_JAVA[what]
    batch = assemble_batch(payload, record_count=1, last_offset_delta=0, base_timestamp=1000)
    (record,) = decode_records(batch)
    again = recompress(payload, validate_batch(batch), Compression.ZSTD)
    assert decode_records(again) == [record]
    assert decode_header(again).max_timestamp == record.timestamp_ms


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY, Compression.ZSTD])
@pytest.mark.parametrize("what", ROTTEN)
def test_rotten_records_are_refused(what: str, codec: Compression) -> None:
    payload, count = ROTTEN[what]
    batch = assemble_batch(
        payload, record_count=count, last_offset_delta=count - 1, base_timestamp=1000, compression=codec
    )
    with pytest.raises(CorruptRecordBatch):
        recompressed(batch, validate_batch(batch), Compression.GZIP)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_bomb_is_refused(codec: Compression) -> None:
    batch = encode_batch([Record(0, 0, None, bytes(200_000))], compression=codec)
    header = decode_header(batch)
    assert recompressed(batch, header, Compression.GZIP, decompressed_bytes_max=201_000)
    with pytest.raises(CorruptRecordBatch, match="decompress to more than 100000 bytes"):
        recompressed(batch, header, Compression.GZIP, decompressed_bytes_max=100_000)
