"""The offset grammar of ``-o``, one for every command; pure: offsets and times are handed in.

=============  ======================================================
``start``      the first record that is still there
``end``        after the last record
``n``          offset n
``+n``         n records after the start
``-n``         n records before the end
``@time``      first record at or after a time: ``2026-11-21``, ``2026-11-21T14:30[:05[.250]][Z|+01:00]``,
               seconds (10 digits) or milliseconds (13 digits) since 1970
``@-10m``      first record at or after ten minutes ago (``ms``, ``s``, ``m``, ``h``, ``d``)
``a:b``        from a up to, but without, b; either may be left out
=============  ======================================================

A time without a zone is UTC. A time takes as many characters as it can, so in ``@…T14:30:05`` the 05 is
seconds; write the seconds when a range follows a time of day.

Invariants: ``parse_range(str(x)) == x``; a placed offset lies in ``[start, end]`` of its partition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from semel.errors import ConfigError

GRAMMAR: Final = "start, end, n, +n, -n, @time, @-10m or a:b"

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OFFSET_MAX: Final = 2**63 - 1
_AGO_DIGITS_MAX: Final = 9
_DATE_TIME = r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?"
_POINT = re.compile(
    r"(?P<word>start|end)"
    rf"|@-(?P<ago>\d{{1,{_AGO_DIGITS_MAX}}})(?P<unit>ms|[smhd])"
    rf"|@(?P<date>{_DATE_TIME})"
    r"|@(?P<since>\d{13}|\d{10})"
    r"|(?P<sign>[+-]?)(?P<count>\d{1,19})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Absolute:
    """Exactly this offset."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class AfterStart:
    """``count`` records after the log start offset; 0 is the start itself."""

    count: int

    def __str__(self) -> str:
        return f"+{self.count}" if self.count else "start"


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """``count`` records before the end; 0 is the end itself."""

    count: int

    def __str__(self) -> str:
        return f"-{self.count}" if self.count else "end"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record whose timestamp is at or after this one."""

    timestamp_ms: int

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.timestamp_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"@{moment}.{self.timestamp_ms % 1000:03d}Z"


@dataclass(frozen=True, slots=True)
class Ago:
    """The first record of the last ``duration_ms``, counted from the moment of asking."""

    duration_ms: int

    def __str__(self) -> str:
        unit = next(u for u, ms in reversed(_UNIT_MS.items()) if self.duration_ms % ms == 0)
        return f"@-{self.duration_ms // _UNIT_MS[unit]}{unit}"


Point = Absolute | AfterStart | BeforeEnd | AtTime | Ago

START: Final = AfterStart(0)
END: Final = BeforeEnd(0)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """From ``first`` up to, but without, ``stop``; no ``stop`` means to follow the log for ever."""

    first: Point
    stop: Point | None = None

    def __str__(self) -> str:
        return str(self.first) if self.stop is None else f"{self.first}:{self.stop}"


def parse_range(text: str) -> OffsetRange:
    """Read ``a`` or ``a:b``; :class:`ConfigError` names the grammar when it is neither."""
    first, position = (START, 0) if text.startswith(":") else _parse_point(text, 0)
    if position == len(text):
        return OffsetRange(first)
    if text[position] != ":":
        raise _refusal(text)
    position += 1
    if position == len(text):
        return OffsetRange(first, END)
    stop, position = _parse_point(text, position)
    if position != len(text):
        raise _refusal(text)
    return OffsetRange(first, stop)


def parse_point(text: str) -> Point:
    """Read one place in the log, where a range makes no sense."""
    point, position = _parse_point(text, 0)
    if position != len(text):
        raise _refusal(text)
    return point


def timestamp_needed(point: Point, now_ms: int) -> int | None:
    """The timestamp to look up before :func:`place` can answer, or None."""
    match point:
        case AtTime(timestamp_ms):
            return timestamp_ms
        case Ago(duration_ms):
            return max(0, now_ms - duration_ms)
        case _:
            return None


def place(point: Point, *, start_offset: int, end_offset: int, found_offset: int | None = None) -> int:
    """The offset that ``point`` means in one partition, held within its start and end.

    ``found_offset`` is the answer to :func:`timestamp_needed`; None when no record is that young.
    """
    match point:
        case Absolute(offset):
            wanted = offset
        case AfterStart(count):
            wanted = start_offset + count
        case BeforeEnd(count):
            wanted = end_offset - count
        case _:
            wanted = end_offset if found_offset is None else found_offset
    return min(max(wanted, start_offset), end_offset)


def _parse_point(text: str, position: int) -> tuple[Point, int]:
    found = _POINT.match(text, position)
    if found is None:
        raise _refusal(text)
    after = found.end()
    if found["word"]:
        return (START if found["word"] == "start" else END), after
    if found["ago"]:
        return Ago(int(found["ago"]) * _UNIT_MS[found["unit"]]), after
    if found["date"]:
        return AtTime(_milliseconds(found["date"], text)), after
    if found["since"]:
        return AtTime(int(found["since"]) * (1000 if len(found["since"]) == 10 else 1)), after
    count = int(found["count"])
    if count > _OFFSET_MAX:
        raise _refusal(text)
    kinds: dict[str, type[Absolute | AfterStart | BeforeEnd]] = {
        "": Absolute,
        "+": AfterStart,
        "-": BeforeEnd,
    }
    return kinds[found["sign"]](count), after


def _milliseconds(date: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        raise _refusal(text) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    timestamp_ms = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    if timestamp_ms < 0:
        raise _refusal(text)
    return timestamp_ms


def _refusal(text: str) -> ConfigError:
    return ConfigError(f"{text!r} is not an offset: write {GRAMMAR}")
