"""Markers come back, other control records are told apart, and stunted ones are refused."""

import struct

import pytest

from semel.errors import CorruptRecordBatch
from semel.record.batch import Compression, Record, decode_header, encode_batch
from semel.record.control import MarkerType, decode_marker, encode_abort_marker, encode_commit_marker


@pytest.mark.parametrize(
    ("encode", "kind"), [(encode_abort_marker, MarkerType.ABORT), (encode_commit_marker, MarkerType.COMMIT)]
)
def test_markers_come_back(encode, kind: MarkerType) -> None:  # type: ignore[no-untyped-def]
    batch = encode(9, 3, 2, 55)
    header = decode_header(batch)
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    assert decode_marker(batch) == (kind, 0, 55, 9, 3, 2)


def test_a_marker_in_any_other_form_is_the_same() -> None:
    """The way through records is for those that are not written as everybody writes them."""
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7)
    marker = Record(0, 5, key, value)
    plain = encode_batch([marker], producer_id=9, producer_epoch=3, transactional=True, control=True)
    others = [
        encode_batch([record], producer_id=9, producer_epoch=3, transactional=True, control=True, **more)
        for record, more in (
            (marker._replace(headers=(("h", b""),)), {}),
            (marker._replace(key=key + b"more"), {}),
            (marker._replace(value=value + b"more"), {}),
            (marker, {"compression": Compression.GZIP}),
        )
    ]
    assert decode_marker(plain) == (MarkerType.COMMIT, 0, 5, 9, 3, 7)
    for other in others:
        assert len(other) != len(plain)
        assert decode_marker(other) == decode_marker(plain)


def test_a_marker_that_has_rotted_is_refused() -> None:
    batch = encode_commit_marker(9, 3, 2, 55)
    batch[-4] ^= 1
    with pytest.raises(CorruptRecordBatch):
        decode_marker(batch)
    with pytest.raises(CorruptRecordBatch):
        decode_marker(encode_commit_marker(9, 3, 2, 55) + b"more")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0", b""),
        (struct.pack(">hh", -1, 0), b"\0" * 6),
        (struct.pack(">hh", 0, 0), b"\0" * 5),
    ],
)
def test_stunted_markers_are_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(CorruptRecordBatch):
        decode_marker(encode_batch([Record(0, 5, key, value)], control=True))


def test_other_control_records_are_no_markers() -> None:
    leader_change = Record(0, 5, struct.pack(">hh", 0, 2), b"")
    assert decode_marker(encode_batch([leader_change], control=True)) is None
    with pytest.raises(CorruptRecordBatch, match="not a control batch"):
        decode_marker(encode_batch([leader_change]))
