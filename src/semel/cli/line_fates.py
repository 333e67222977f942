"""What became of the lines that ``produce`` sent: which are stored, which are not, and what may be sent again.

Without an identity nobody can tell a line that comes twice, so a failure names the lines that are not stored, and
reading ends at the first one seen: at most ``OPEN_MAX`` lines are unsettled then.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from semel.errors import CannotKnow, DeliveryError, NotStored, ProducerFenced
from semel.wording import counted

if TYPE_CHECKING:
    from semel.client.delivery import Delivery

OPEN_MAX: Final = 2_000  # deliveries; what is delivered is forgotten
RANGES_SHOWN_MAX: Final = 20


class LineFates:
    """Takes the lines' deliveries, in the order of the lines, which are counted from 1."""

    def __init__(self, topic: str, *, has_identity: bool) -> None:
        self._topic, self._has_identity = topic, has_identity
        self.delivered = self.already_stored = 0
        self.last_line = 0  # that was begun
        self._is_open = False  # it was not watched yet
        self._waiting: deque[tuple[int, Delivery]] = deque()
        self._not_stored = _Lines()
        self._in_doubt = _Lines()
        self._first: DeliveryError | None = None

    def begin(self, line: int) -> None:
        """The line is about to be sent."""
        self.last_line, self._is_open = line, True

    def watch(self, delivery: Delivery) -> int:
        """Its delivery; how many lines came through meanwhile."""
        self._waiting.append((self.last_line, delivery))
        self._is_open = False
        before = self.delivered + self.already_stored
        while self._waiting and (len(self._waiting) >= OPEN_MAX or self._waiting[0][1].done()):
            self._take(*self._waiting.popleft())
        return self.delivered + self.already_stored - before

    @property
    def has_failed(self) -> bool:
        return self._first is not None

    def settle(self, refused: DeliveryError | None = None) -> int:
        """Wait for what is left, after a flush; ``refused``: why the last line that was begun did not go."""
        before = self.delivered + self.already_stored
        while self._waiting:
            self._take(*self._waiting.popleft())
        # A producer with an identity refuses whatever comes behind a failure: that is told by the failure.
        if refused is not None and not (self.has_failed and self._has_identity):
            self._failed(self.last_line, refused)
        return self.delivered + self.already_stored - before

    def _take(self, line: int, delivery: Delivery) -> None:
        try:
            report = delivery.result()
        except DeliveryError as error:
            self._failed(line, error)
        else:
            self.delivered += not report.already_stored
            self.already_stored += report.already_stored

    def _failed(self, line: int, error: DeliveryError) -> None:
        (self._in_doubt if isinstance(error, CannotKnow) else self._not_stored).add(line, error.why)
        self._first = self._first or error

    def failure(self) -> DeliveryError | None:
        """The error for all lines that failed, with what to do; None if there are none."""
        first = self._first
        if first is None or isinstance(first, ProducerFenced):
            return first
        kind = CannotKnow if self._in_doubt else NotStored
        return kind(self._resumable(first) if self._has_identity else self._once(first), first.code)

    def _resumable(self, first: DeliveryError) -> str:
        """With an identity all may be sent again: the first line that failed is enough."""
        again = "run the same again with this --identity: what is stored is skipped"
        if isinstance(first, CannotKnow):
            return f"line {self._in_doubt.first:,} may or may not be stored: {first.why}; {again}"
        mend = "" if first.code is not None and first.code.retriable else "mend it, and "
        return f"line {self._not_stored.first:,} is not stored: {first.why}; {mend}{again}"

    def _once(self, first: DeliveryError) -> str:
        parts = [self._failures()]
        parts.append(f"{self._stored()}, and nothing behind line {self.last_line:,} was sent")
        text = "; ".join(parts)
        if self._not_stored:
            mend = (
                ""
                if first.code is not None and first.code.retriable
                else f"mend {self._not_stored.named}, and "
            )
            which = self._not_stored.pronoun if mend else self._not_stored.named
            text += (
                f": {mend}send {which} alone, with what is behind line {self.last_line:,} if there is more"
            )
        if self._in_doubt:
            text += f"; look for {self._in_doubt.named} in the topic before you send {self._in_doubt.pronoun} again"
        if self.delivered:
            text += f"; all of it again would store those {self.delivered:,} twice"
        return text

    def interruption(self) -> str:
        """After the producer was closed by Ctrl-C: what is stored, and what to do."""
        for line, delivery in self._waiting:
            if delivery.done():
                self._take(line, delivery)
            else:  # a second Ctrl-C did not wait for it
                self._in_doubt.add(line, "interrupted")
        self._waiting.clear()
        if self._is_open:  # Ctrl-C came in the middle of it
            self._in_doubt.add(self.last_line, "interrupted")
        if not self.last_line:
            return "nothing was sent"
        text = "; ".join(filter(None, (self._failures(), self._stored())))
        if self._has_identity:
            return f"{text}; run the same again with this --identity, and it goes on behind them"
        behind = f"nothing behind line {self.last_line:,} was sent"
        if not self.delivered:
            return f"{text}, and {behind}"
        return (
            f"{text}, and {behind}; all of it again would store those {self.delivered:,} twice: send the rest alone "
            f"(a run that was begun with --identity goes on by itself)"
        )

    def _failures(self) -> str:
        not_stored, in_doubt = self._not_stored, self._in_doubt
        parts = []
        if not_stored:
            parts.append(f"{not_stored.named} {not_stored.are} not stored: {not_stored.why}")
        if in_doubt:
            parts.append(f"{in_doubt.named} may or may not be stored: {in_doubt.why}")
        return "; ".join(parts)

    def _stored(self) -> str:
        # Also those that were passed over, in front of the first that was handed.
        count = self.last_line - self._not_stored.count - self._in_doubt.count
        are = "is" if count == 1 else "are"
        return f"{counted(count, 'record')} of this input {are} stored in topic {self._topic}"


class _Lines:
    """Numbers of lines that share a fate; the first one's reason."""

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []
        self.why = ""

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, line: int, why: str) -> None:
        """Lines come in their order."""
        self.why = self.why or why
        if self._ranges and self._ranges[-1][1] == line - 1:
            self._ranges[-1][1] = line
        else:
            self._ranges.append([line, line])

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def first(self) -> int:
        return self._ranges[0][0]

    @property
    def _is_one(self) -> bool:
        return len(self._ranges) == 1 and self._ranges[0][0] == self._ranges[0][1]

    @property
    def are(self) -> str:
        return "is" if self._is_one else "are"

    @property
    def pronoun(self) -> str:
        return "it" if self._is_one else "them"

    @property
    def named(self) -> str:
        shown = [
            f"{first:,}" if first == last else f"{first:,} to {last:,}"
            for first, last in self._ranges[:RANGES_SHOWN_MAX]
        ]
        left_out = sum(last - first + 1 for first, last in self._ranges[RANGES_SHOWN_MAX:])
        more = f" and {left_out:,} more up to {self._ranges[-1][1]:,}" if left_out else ""
        return f"line{'' if self._is_one else 's'} {', '.join(shown)}{more}"
