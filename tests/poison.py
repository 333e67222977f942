"""Batches that stand in a reader's way: their producer wrote them so, under a right checksum.

They say that they are compressed, for a server may look into those that do not before it takes them.
"""

from __future__ import annotations

import struct
from typing import Final

from semel.client.blocking import Cluster
from semel.record.batch import Record, assemble_batch, crc32c, encode_batch
from semel.record.compression import Compression
from semel.record.records import encode_payload
from semel.types import TopicPartition

ROWS: Final = 2  # of each
_ATTRIBUTES, _CRC = struct.Struct(">h"), struct.Struct(">I")
_ATTRIBUTES_AT, _CRC_AT = 21, 17


def _with_codec(batch: bytes | bytearray, codec: Compression) -> bytes:
    """The same bytes, said to be in another codec."""
    changed = bytearray(batch)
    _ATTRIBUTES.pack_into(changed, _ATTRIBUTES_AT, codec)
    _CRC.pack_into(changed, _CRC_AT, crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
    return bytes(changed)


def _of(payload: bytes) -> bytes:
    """Two records, it says."""
    return bytes(
        assemble_batch(payload, record_count=ROWS, last_offset_delta=ROWS - 1, compression=Compression.SNAPPY)
    )


def _bomb() -> bytes:
    """Snappy that says that it is 256 MiB."""
    chunk = b"\x80\x80\x80\x80\x01" + bytes(2**22)
    return _with_codec(
        assemble_batch(chunk, record_count=ROWS, last_offset_delta=ROWS - 1), Compression.SNAPPY
    )


_TWO: Final = [Record(0, 1, b"k", b"bad")] * ROWS
UNREADABLE: Final = {
    "a length that lies": _of(b"\x7e" + bytes(encode_payload(_TWO, 1))[1:]),
    "rubbish": _of(b"\x77" * 40),
    "a record too few": _of(bytes(encode_payload(_TWO[:1], 1)) + bytes(7)),
    "no gzip": _with_codec(encode_batch(_TWO), Compression.GZIP),
}
BOMB: Final = _bomb()


def timeless() -> bytes:
    """Two rows whose times no column of microseconds holds."""
    return bytes(
        encode_batch([Record(0, -(2**62), b"k", b"old"), Record(0, -(2**62) + 2**61, b"k", b"older")])
    )


def odd_header_key() -> bytes:
    """A row with a header whose key is no UTF-8."""
    payload = encode_payload([Record(0, 1, b"k", b"odd", (("h??", b"1"),))], 1).replace(b"h??", b"h\xff\xc3")
    return bytes(assemble_batch(payload, record_count=1, last_offset_delta=0, base_timestamp=1))


def good(*values: bytes) -> bytes:
    """Rows that anybody reads."""
    return bytes(encode_batch([Record(0, 1_000, b"k", value) for value in values]))


def produce(bootstrap: str, tp: TopicPartition, *batches: bytes) -> None:
    """Each as it is; the topic is made where there is none."""
    with Cluster(bootstrap) as cluster:
        if cluster.metadata([tp.topic]).topics[tp.topic].error_code:
            cluster.create_topics({tp.topic: 1})
        for batch in batches:
            answer = cluster.produce({tp: batch})[tp]
            assert not answer.error_code, answer
