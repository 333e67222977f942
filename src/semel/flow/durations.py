"""Lengths of time as people write them: ``"10 minutes"``, ``"1 hour 30 minutes"``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNIT_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
_PART: Final = re.compile(r"\s*(\d{1,12})\s*([A-Za-z]+)\s*,?")
DURATION_MS_MAX: Final = 366 * 86_400_000

GRAMMAR: Final = 'a number and a unit from ms to weeks, as "10 minutes" or "1 hour 30 minutes"'


def parse_duration_ms(given: str | timedelta) -> int:
    """In milliseconds, zero or more; ``ValueError`` says what cannot be read."""
    if isinstance(given, timedelta):
        duration_ms, rest = divmod(given, timedelta(milliseconds=1))
        if rest or duration_ms < 0:
            raise ValueError(f"{given!r} is not a whole number of milliseconds, zero or more")
    elif isinstance(given, str):
        duration_ms = _of_text(given)
    else:
        raise ValueError(f"{given!r} has no unit: write {GRAMMAR}")  # noqa: TRY004 - the caller tells one error
    if duration_ms > DURATION_MS_MAX:
        raise ValueError(f"{given!r} is more than a year")
    return duration_ms


def _of_text(text: str) -> int:
    duration_ms, at = 0, 0
    while part := _PART.match(text, at):
        unit = part[2].lower()
        unit_ms = _UNIT_MS.get(unit) or _UNIT_MS.get(unit.removesuffix("s"))
        if unit_ms is None:
            raise ValueError(f"{part[2]!r} in {text!r} is no unit of time: write {GRAMMAR}")
        duration_ms += int(part[1]) * unit_ms
        at = part.end()
    if at == 0 or text[at:].strip():
        raise ValueError(f"{text!r} is no length of time: write {GRAMMAR}")
    return duration_ms


def short_duration(duration_ms: int) -> str:
    """As names of stages have it: ``10m``, ``1h30m``."""
    if duration_ms == 0:
        return "0s"
    text = ""
    for unit in ("d", "h", "m", "s", "ms"):
        count, duration_ms = divmod(duration_ms, _UNIT_MS[unit])
        text += f"{count}{unit}" if count else ""
    return text
