"""What a value that does not fit may have meant. Flows write their errors to topics, so theirs stay as they are."""

from __future__ import annotations

import re
from typing import Final

from semel.core.flow.schema import Kind, Schema
from semel.record.json_values import NotJson, found

_SECONDS_MAX: Final = 253_402_300_799  # 9999-12-31T23:59:59
_OF_A_SECOND: Final = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_FRAME_BYTES: Final = 5
_WHOLE: Final = re.compile(rb"-?[0-9]{1,30}")


def with_hint(why: str, value: bytes | None, schema: Schema) -> str:
    """``why`` and what it looks like: a number that is too large for seconds, or JSON behind a schema's id."""
    value = value or b""
    if value[:1] == b"\0" and value[_FRAME_BYTES : _FRAME_BYTES + 1] == b"{":
        number = int.from_bytes(value[1:_FRAME_BYTES], "big")
        return f"{why}; it looks like JSON in Confluent's frame of schema id {number}, which is not read"
    for field in schema:
        if field.kind is Kind.TIMESTAMP and why == f"column {field.name!r} is no {field.kind.value}":
            text = _written(field.name, value)
            if _WHOLE.fullmatch(text):
                return f"{why}: a whole number is seconds since 1970{_looks_like(int(text))}"
    return why


def _written(name: str, value: bytes) -> bytes:
    """What a field is in a value, of which the rest may be anything."""
    try:
        return found(value, (name,)) or b""
    except NotJson:
        return b""


def _looks_like(number: int) -> str:
    for unit, count in _OF_A_SECOND.items():
        if abs(number) <= _SECONDS_MAX * count:
            return (
                f", and {number} looks like {unit}: declare the column as long, and divide where you read it"
            )
    return ""
