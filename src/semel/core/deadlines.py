"""Many deadlines, of which the earliest is asked for, and which are mostly put off.

A heartbeat puts its member's deadline off, and most deadlines are put off for ever. So only what comes first is kept in
order: a deadline that is put off moves in the order when its old time has come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """One deadline a key, in ms of any one clock."""

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}
        self._queued_ms: dict[K, int] = {}  # the earliest place of each key in the order
        self._order: list[tuple[int, int, K]] = []
        self._placed = 0  # those of one time come in the order in which they were set

    def set(self, key: K, due_ms: int) -> None:
        """``key`` is due at ``due_ms``, and no longer at another time."""
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._queued_ms[key] = due_ms
            heappush(self._order, self._place(due_ms, key))

    def cancel(self, key: K) -> None:
        """``key`` is never due; also when it is not set."""
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        """When the next one is due."""
        while self._order:
            queued_ms, _, key = self._order[0]
            due_ms = self._due_ms.get(key)
            if (
                self._queued_ms.get(key) != queued_ms
            ):  # it was set to an earlier time, and that place has gone
                heappop(self._order)
            elif due_ms is None:
                heappop(self._order)
                del self._queued_ms[key]
            elif due_ms > queued_ms:
                self._queued_ms[key] = due_ms
                heapreplace(self._order, self._place(due_ms, key))
            else:
                return due_ms
        return None

    def due(self, now_ms: int) -> Iterator[K]:
        """Those that are due by ``now_ms``, each taken out as it is told. More may be set or cancelled meanwhile."""
        while (next_ms := self.next_ms()) is not None and next_ms <= now_ms:
            key = heappop(self._order)[2]
            del self._due_ms[key], self._queued_ms[key]
            yield key

    def _place(self, due_ms: int, key: K) -> tuple[int, int, K]:
        self._placed += 1
        return due_ms, self._placed, key
