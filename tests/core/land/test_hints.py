"""What a whole number in a timestamp looks like."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semel.core.flow.codec import decode_table
from semel.core.flow.schema import parse_schema
from semel.core.land.hints import with_hint

SCHEMA = parse_schema("n long, t timestamp")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b'{"t":1700000000000}', "1700000000000 looks like milliseconds"),
        (b'{"t":1700000000000000}', "looks like microseconds"),
        (b'{"t":1700000000000000000}', "looks like nanoseconds"),
        (b'{"t":-1700000000000}', "looks like milliseconds"),
        (b'{"t":10000000000000000000000}', "is seconds since 1970"),
        (b'{"t":"soon"}', None),
        (b'{"t":true}', None),
        (b'{"t":1e400}', None),
        (b'{"t":[[1]]}', None),
        (b'{"n":"x","t":1}', None),
        (b'{"\xff":1,"t":1700000000000}', "looks like milliseconds"),
        (b"{", None),
        (b'\0\0\0\0\x07{"n":1}', "Confluent's frame of schema id 7"),
    ],
)
def test_a_number_that_is_no_seconds_is_named(value: bytes, says: str | None) -> None:
    _, ((_, why),) = decode_table(SCHEMA, pa.chunked_array([pa.array([value])]))
    hinted = with_hint(why, value, SCHEMA)
    assert hinted == why if says is None else says in hinted
