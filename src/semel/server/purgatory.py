"""Operations that wait for something to happen, or for their time (Kafka's ``DelayedOperationPurgatory``, without its
wheel): fetches that wait for something to read, and whatever else awaits an event or a deadline.

Invariants: an operation is completed exactly once, at its deadline at the latest; one whose connection has gone is
dropped and leaves nothing behind. What they wait for is bounded in all: beyond that the one that waits for most is
answered with what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, TypeVar

from semel.server.event_loop import EventLoop, Timer
from semel.server.outcome import Delayed

T = TypeVar("T")

WATCHED_MAX: Final = 200_000  # keys of all operations together: about 100 MiB


class DelayedOperation:
    """One that waits."""

    __slots__ = ("complete", "delayed", "timer")

    def __init__(self, delayed: Delayed[Any], complete: Callable[[Any], None]) -> None:
        self.delayed: Final = delayed
        self.complete: Final = complete
        self.timer: Timer | None = None


class Purgatory:
    """All of them, found by the keys that they watch."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._woken: dict[Hashable, None] = {}
        self._all: dict[DelayedOperation, None] = {}
        self._relieving = False
        self._watched = 0  # keys, each operation's counted

    def __len__(self) -> int:
        return len(self._all)

    def watch(self, delayed: Delayed[T], complete: Callable[[T], None]) -> DelayedOperation:
        """Attempt it whenever one of its keys is woken; for the last time when its time is over."""
        operation = DelayedOperation(delayed, complete)
        for key in delayed.keys:
            self._watchers.setdefault(key, {})[operation] = None
        operation.timer = self._loop.call_later(delayed.wait_ms / 1000, self._expire, operation)
        self._all[operation] = None
        self._watched += len(delayed.keys)
        if self._watched > WATCHED_MAX and not self._relieving:
            self._relieving = True
            # not at once: the newest, too, may be the one, and its owner must know it first
            self._loop.call_soon(self._relieve)
        return operation

    def wake(self, keys: Iterable[Hashable]) -> None:
        """Something happened to these. The looking is put off, so that many appends cost one look."""
        if not self._watchers:
            return
        for key in keys:
            if key in self._watchers:
                if not self._woken:
                    self._loop.call_soon(self._look)
                self._woken[key] = None

    def drop(self, operation: DelayedOperation) -> None:
        """Forget it: its connection has gone."""
        if operation.timer is not None:
            operation.timer.cancel()
        if operation not in self._all:
            return
        del self._all[operation]
        self._watched -= len(operation.delayed.keys)
        for key in operation.delayed.keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watchers[key]

    def expire_all(self) -> None:
        """Answer everything with what there is: the server stops."""
        for operation in list(self._all):
            self._expire(operation)

    def _relieve(self) -> None:
        self._relieving = False
        while self._watched > WATCHED_MAX:
            self._expire(max(self._all, key=lambda operation: len(operation.delayed.keys)))

    def _look(self) -> None:
        woken, self._woken = self._woken, {}
        for operation in dict.fromkeys(one for key in woken for one in self._watchers.get(key, ())):
            answer = operation.delayed.attempt(False) if operation in self._all else None
            if answer is not None:
                self.drop(operation)
                operation.complete(answer)

    def _expire(self, operation: DelayedOperation) -> None:
        self.drop(operation)
        answer = operation.delayed.attempt(True)
        assert answer is not None, "the last attempt gave no answer"
        operation.complete(answer)
