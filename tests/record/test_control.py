"""Markers come back, other control records are told apart, and stunted ones are refused."""

import struct

import pytest

from semel.errors import CorruptRecordBatch
from semel.record.batch import Record, decode_header, encode_batch
from semel.record.control import MarkerType, decode_marker, encode_abort_marker, encode_commit_marker


@pytest.mark.parametrize(
    ("encode", "kind"), [(encode_abort_marker, MarkerType.ABORT), (encode_commit_marker, MarkerType.COMMIT)]
)
def test_markers_come_back(encode, kind: MarkerType) -> None:  # type: ignore[no-untyped-def]
    batch = encode(9, 3, 2, 55)
    header = decode_header(batch)
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    assert decode_marker(batch) == (kind, 0, 55, 9, 3, 2)


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
