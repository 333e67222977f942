"""Log lines about what others do to the server: the first one of a kind at once, of the rest how many there were.

Whoever repeats a mistake thousands of times a second must neither fill the disk with lines nor hide those that
matter. Kinds are told apart by who it is about and by cause.

Invariants: within ``PERIOD_S`` a kind gets one line, and one more at its end if some were left out. Kinds are bounded,
for one party and in all; what goes beyond counts as one kind together.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

PERIOD_S: Final = 60.0
KINDS_OF_ONE_MAX: Final = 20
KINDS_MAX: Final = 2000
SHOWN_CHARS_MAX: Final = 100

_Kind: TypeAlias = tuple[str, str]  # about whom, cause
_ALL_OTHERS: Final[_Kind] = ("", "all others")


class _Lines:
    __slots__ = ("began_s", "count", "level", "text")

    def __init__(self, began_s: float, level: int, text: str) -> None:
        self.began_s = began_s
        self.level = level
        self.text = text
        self.count = 0  # with those that were left out


class BoundedLog:
    """One server's lines of that sort."""

    def __init__(self, log: logging.Logger, now_s: Callable[[], float]) -> None:
        self._log = log
        self._now_s = now_s
        self._kinds: dict[_Kind, _Lines] = {}  # in the order in which they began
        self._kinds_of: Counter[str] = Counter()

    def tell(self, level: int, about: str, cause: str, text: str, *, exc_info: bool = False) -> int:
        """Log ``text``, or leave it out; how many of its kind there were in this period, with this one."""
        self.sum_up()
        kind = about, cause
        lines = self._kinds.get(kind)
        if lines is None and (len(self._kinds) >= KINDS_MAX or self._kinds_of[about] >= KINDS_OF_ONE_MAX):
            kind = _ALL_OTHERS
            lines = self._kinds.get(kind)
        if lines is None:
            lines = self._kinds[kind] = _Lines(self._now_s(), level, text)
            self._kinds_of[kind[0]] += 1
            self._log.log(level, "%s", text, exc_info=exc_info)
        lines.count += 1
        return lines.count

    def sum_up(self, *, at_once: bool = False) -> None:
        """Say what was left out in periods that are over; ``at_once``: in those that are not, too."""
        now_s = self._now_s()
        while self._kinds:
            kind, lines = next(iter(self._kinds.items()))
            if not at_once and now_s - lines.began_s < PERIOD_S:
                return
            del self._kinds[kind]
            self._kinds_of[kind[0]] -= 1
            if not self._kinds_of[kind[0]]:
                del self._kinds_of[kind[0]]
            if lines.count > 1:
                alike = "of many kinds, the first of them" if kind == _ALL_OTHERS else "like"
                left_out = lines.count - 1
                self._log.log(
                    lines.level,
                    "left out %d %s %s: %s",
                    left_out,
                    "line" if left_out == 1 else "lines",
                    alike,
                    lines.text,
                )


def shown(text: str) -> str:
    """A stranger's text for a log line: short, and one line whatever it is."""
    clipped = text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"
    return repr(clipped)
