"""Schemas, their rows, and JSON values of every kind, also hostile ones."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
from hypothesis import strategies as st

from semel.core.flow.schema import Field, Kind, Schema

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    [
        "",
        '"',
        "\\",
        "\n",
        "\x00",
        "{",
        "}{",
        '{"user":1}',
        "null",
        "12:30:45",
        "+02:00",
        "1:00:00.000001",
        "é",
        "😀",
    ]
)


def nearest_float(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


FIRST, LAST = datetime.fromisoformat("0001-01-03T00:00:00"), datetime.fromisoformat("9999-12-29T00:00:00")
INSTANT = st.datetimes(FIRST, LAST).map(lambda time: time.replace(tzinfo=UTC, fold=0))
OF_KIND = {
    Kind.STRING: TEXT,
    Kind.LONG: st.integers(-(2**63), 2**63 - 1),
    Kind.INT: st.integers(-(2**31), 2**31 - 1),
    Kind.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Kind.FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Kind.BOOLEAN: st.booleans(),
    Kind.TIMESTAMP: INSTANT,
    Kind.DATE: st.dates(),
    Kind.BINARY: st.binary(max_size=8),
}
ZONES = (
    st.integers(-23 * 3600, 23 * 3600)
    .filter(lambda seconds: not 0 < abs(seconds) <= 30)  # as no zone of the time zone database
    .map(lambda seconds: timezone(timedelta(seconds=seconds)))
)
TIME = st.datetimes(FIRST, LAST, timezones=st.none() | ZONES | st.just(UTC))

NAMES = st.lists(
    st.sampled_from(["user", "n", "at", "x", "url", "from", "_id"]), min_size=1, max_size=4, unique=True
)
SCHEMAS = st.builds(
    lambda names, kinds: Schema(tuple(map(Field, names, kinds))),
    NAMES,
    st.lists(st.sampled_from(list(Kind)), min_size=4, max_size=4),
)


def rows_of(schema: Schema, *, max_size: int = 8) -> st.SearchStrategy[list]:
    columns = [st.none() | OF_KIND[field.kind] for field in schema]
    return st.lists(st.builds(schema.row_type, *columns), max_size=max_size)


SCHEMA_AND_ROWS = SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), rows_of(schema)))

FRAGMENTS = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            "\\",
            "\n",
            " ",
            "\t",
            "\r\n",
            "\x00",
            "\ufeff",
            "1",
            "-0",
            "1.0",
            "1e3",
        ),
        *(
            "{}",
            "[]",
            "{},{}",
            "{}{}",
            "{} {}",
            "{}\n{}",
            "{}],[{}",
            '{"user":[',
            "]}",
            '{"user":"',
            '"}',
            "null",
        ),
        *(
            '{"user":"a"}',
            '{"user":null,"n":1}',
            '{"n":1,"n":2}',
            '{"n":"1","n":2}',
            '"user":',
            '"n":',
            "true",
            "1,2",
        ),
        *(
            '{"n":9223372036854775808}',
            '{"other":{}}',
            '{"other":"{"}',
            '{"at":5}',
            '{"at":5.5}',
            '{"x":1e400}',
        ),
        *(
            '{"at":"2024-01-01T00:00:00"}',
            '{"at":"2024-01-01T00:00:00+02:00"}',
            '{"at":"2024-01-01T00:00:00Z"}',
        ),
        *(
            '{"at":"0001-01-01T00:00:00+01:00"}',
            '{"at":99999999999999}',
            '{"user":"\\ud800"}',
            '{"user":"\\u0041"}',
        ),
        *(
            "[" * 127 + "]" * 127,
            '{"other":' + "[" * 127 + "]" * 127 + "}",
            '{"other":' + "[" * 128 + "]" * 128 + "}",
        ),
    ]
)
HOSTILE = st.lists(FRAGMENTS, max_size=5).map(lambda parts: "".join(parts).encode()) | st.sampled_from(
    [b"\xff", b'{"user":"\xff"}', b'{"other":"\xff"}', b'{"\xff":1}']
)
FINE = st.sampled_from(
    [
        b"{}",
        b'{"user":"a","n":1}',
        b'{"at":"2024-01-01T00:00:00.5Z"}',
        b' {"x":1.5}\n',
        b'{"user":"{"}',
        b'{"n":null}',
    ]
)
VALUES = st.lists(st.none() | HOSTILE | FINE, max_size=8)


def values_array(values: list[bytes | None]) -> pa.Array:
    """A slice of a larger array, as values often are."""
    return pa.array([b"{", *values, b"}"], pa.binary())[1:-1]
