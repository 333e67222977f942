"""What a value that does not fit may have meant. Flows write their errors to topics, so theirs stay as they are."""

from __future__ import annotations

from typing import Final

import msgspec

from semel.core.flow.schema import Kind, Schema

_SECONDS_MAX: Final = 253_402_300_799  # 9999-12-31T23:59:59
_OF_A_SECOND: Final = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def with_hint(why: str, value: bytes | None, schema: Schema) -> str:
    """``why`` and what to do, where a timestamp is a whole number that is too large for seconds."""
    for field in schema:
        if field.kind is Kind.TIMESTAMP and why == f"column {field.name!r} is no {field.kind.value}":
            number = msgspec.json.decode(_OBJECT.decode(value or b"")[field.name])
            if type(number) is int:
                return f"{why}: a whole number is seconds since 1970{_looks_like(number)}"
    return why


def _looks_like(number: int) -> str:
    for unit, count in _OF_A_SECOND.items():
        if abs(number) <= _SECONDS_MAX * count:
            return (
                f", and {number} looks like {unit}: declare the column as long, and divide where you read it"
            )
    return ""
