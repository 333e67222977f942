"""The operations that are under way: each goes on when what it waits for has come.

Invariants: an operation ends exactly once, in its answer or, by a defect, in none; none goes on once the server is
closed, as if it had been killed there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from semel.server.changes import Changes
from semel.server.durability import GroupCommit
from semel.server.event_loop import Threads
from semel.server.operation import Happened, InTurn, Steps, Synced
from semel.server.outcome import Delayed
from semel.server.purgatory import Purgatory
from semel.server.storage.aside import Aside

log = logging.getLogger(__name__)

T = TypeVar("T")


class Operations:
    """One server's."""

    def __init__(
        self, durability: GroupCommit, purgatory: Purgatory, changes: Changes, threads: Threads
    ) -> None:
        self._durability = durability
        self._purgatory = purgatory
        self._changes = changes
        self._threads = threads
        self._is_closed = False

    def begin(self, operation: Steps[T], done: Callable[[T | None], None]) -> None:
        """Carry it out, then call ``done``; with ``None`` when a defect ended it."""
        self._go_on(operation, done)

    def close(self) -> None:
        """None goes on."""
        self._is_closed = True

    def _go_on(self, operation: Steps[T], done: Callable[[T | None], None]) -> None:
        if self._is_closed:
            operation.close()
            return
        try:
            awaited = operation.send(None)
        except StopIteration as ended:
            done(ended.value)
            return
        except Exception:
            log.exception("a request failed")
            done(None)
            return
        go_on = partial(self._go_on, operation, done)
        match awaited:
            case Aside():
                self._threads.run(awaited.run, go_on)
            case Synced(partitions=partitions):
                self._durability.request(partitions, go_on)
            case Happened():
                self._wait_for(awaited, go_on)
            case InTurn():
                self._take_turn(awaited, go_on)

    def _wait_for(self, awaited: Happened, go_on: Callable[[], None]) -> None:
        def complete(happened: bool) -> None:
            awaited.happened = happened
            go_on()

        self._purgatory.watch(Delayed(awaited.keys, awaited.wait_ms, lambda final: not final), complete)

    def _take_turn(self, awaited: InTurn[T], go_on: Callable[[], None]) -> None:
        def ended(result: T | None) -> None:
            awaited.ended(result)
            go_on()

        self._changes.request(awaited.begin, ended)
