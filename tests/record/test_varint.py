"""Varints: Kafka's forms, and nothing beyond their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record.varint import append_varint, read_varint, read_varlong


@given(value=st.integers(-(2**31), 2**31 - 1), before=st.binary(max_size=3))
def test_varints_come_back(value: int, before: bytes) -> None:
    out = bytearray(before)
    append_varint(out, value)
    assert len(out) - len(before) <= 5
    assert read_varint(bytes(out), len(before), len(out)) == (value, len(out))


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(value: int) -> None:
    out = bytearray()
    append_varint(out, value)
    assert read_varlong(bytes(out), 0, len(out)) == (value, len(out))


def test_longer_forms_are_read_as_kafka_reads_them() -> None:
    assert read_varint(b"\x82\x80\x00", 0, 3) == (1, 3)


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        (b"", "past its end"),
        (b"\x80", "past its end"),
        (b"\x80" * 5 + b"\0", "longer"),
        (b"\xff" * 4 + b"\x10", "32 bits"),
    ],
)
def test_what_kafka_drops_silently_is_refused(encoded: bytes, why: str) -> None:
    with pytest.raises(CorruptRecordBatch, match=why):
        read_varint(encoded, 0, len(encoded))
