"""The plain produce requests that one turn of the event loop brings, from whichever connections: appended together.

What many connections send at once thus costs one write a partition, as what one connection sends at once does. Each
connection's answer waits for what it wrote itself, and for nothing else. Where it waits for a sync, syncs bring the
connections together already, and none joins: the turn would only begin them one pass of the event loop later.

Invariants
- A connection's requests keep their order: it ends the turn before it has another produce request handled.
- What was read into the scratch buffer and is to be appended stays there until it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from semel.server.bounded_log import BoundedLog
from semel.server.broker import Broker
from semel.server.event_loop import EventLoop
from semel.server.handlers.plain_produce import Plain
from semel.server.outcome import Handled
from semel.server.router import handle_together


class Producing(Protocol):
    """A connection, as far as this file needs to know it."""

    peer_host: str

    def appended(self, handled: Handled | None) -> None:
        """What its requests of this turn came to; None: an error of this server's own."""


class Turn:
    """One server's: the requests of this turn, and the buffer into which connections read."""

    def __init__(
        self,
        broker: Broker,
        loop: EventLoop,
        wall_clock_ms: Callable[[], int],
        lines: BoundedLog,
        scratch_bytes: int,
    ) -> None:
        self.is_open: Final = not broker.storage.settings.durable
        self._broker = broker
        self._loop = loop
        self._wall_clock_ms = wall_clock_ms
        self._lines = lines
        self._scratch: Final = memoryview(bytearray(scratch_bytes))
        self._kept_bytes = 0  # of the scratch buffer: requests lie there
        self._read_to = 0  # where the last read ended
        self._arrived: dict[Producing, list[Plain]] = {}

    def buffer(self) -> memoryview:
        """Room for one read."""
        if self._kept_bytes > len(self._scratch) // 2:
            self.end()
        return self._scratch[self._kept_bytes :]

    def read(self, size_bytes: int) -> memoryview:
        """What has just been read into it; it stays until the next read, and longer where some of it has joined."""
        self._read_to = self._kept_bytes + size_bytes
        return self._scratch[self._kept_bytes : self._read_to]

    def join(self, connection: Producing, requests: list[Plain]) -> None:
        """Append these, of what was read last, when the turn ends."""
        self._kept_bytes = self._read_to
        if not self._arrived:
            self._loop.call_soon(self.end)
        self._arrived.setdefault(connection, []).extend(requests)

    def end(self) -> None:
        """Append what has joined."""
        arrived, self._arrived = self._arrived, {}
        if not arrived:
            return
        handled: list[Handled | None] = []
        try:
            handled += handle_together(self._broker, list(arrived.values()), self._wall_clock_ms())
        except Exception as error:  # a defect: whose request it was is not known, and each client may retry
            hosts = ", ".join(sorted({connection.peer_host for connection in arrived}))
            what, kind = f"produce requests of {hosts} failed", f"failed: {type(error).__name__}"
            self._lines.tell(logging.ERROR, hosts, kind, what, exc_info=True)
            handled += [None] * len(arrived)
        self._kept_bytes = 0
        for connection, its in zip(arrived, handled, strict=True):
            connection.appended(its)
