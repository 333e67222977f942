"""The answers that one connection is owed: they go out in the order of the requests, whichever is known first.

Invariant: what is counted (requests that are open, bytes that wait for an earlier answer) is what stands in the line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from semel.wire.frames import Buffer


class Owed:
    """A place in the line: the answer to one request, or to several that were handled together."""

    __slots__ = ("parts", "requests")

    def __init__(self, requests: int) -> None:
        self.requests = requests
        self.parts: Sequence[Buffer] | None = None  # None: not known yet; empty: nothing is sent


class Answers:
    """One connection's line."""

    __slots__ = ("_line", "open_requests", "waiting_bytes")

    def __init__(self) -> None:
        self._line: deque[Owed] = deque()
        self.open_requests = 0
        self.waiting_bytes = 0  # of answers that are known and wait for an earlier one

    def __bool__(self) -> bool:
        return bool(self._line)

    def owe(self, requests: int) -> Owed:
        """The next place."""
        owed = Owed(requests)
        self._line.append(owed)
        self.open_requests += requests
        return owed

    def owe_more(self, owed: Owed, requests: int) -> None:
        """It is the last in the line, and the answer to so many more."""
        owed.requests += requests
        self.open_requests += requests

    def take_back(self, owed: Owed) -> None:
        """Its request is to be answered in another way; nothing has begun behind it."""
        last = self._line.pop()
        assert last is owed, "something began behind what was to be appended first"
        self.open_requests -= owed.requests

    def answer(self, owed: Owed, parts: Sequence[Buffer]) -> None:
        owed.parts = parts
        self.waiting_bytes += sum(map(len, parts))

    def take_ready(self) -> list[Buffer]:
        """Every answer at the head of the line that is known."""
        line, ready = self._line, list[Buffer]()
        while line and (parts := line[0].parts) is not None:
            self.open_requests -= line.popleft().requests
            ready += parts
        self.waiting_bytes = (
            sum(sum(map(len, one.parts)) for one in line if one.parts is not None) if line else 0
        )
        return ready

    def clear(self) -> None:
        """Nobody is there any more who could read them."""
        self._line.clear()
