"""Connections that are closed for an offence, and who repeats it waits for that, each time longer.

Most clients connect again when a connection is closed; one that then makes the same mistake would do so thousands of
times a second. So its connections are closed later and later (as Kafka's ``connection.failed.authentication.delay.ms``
does, which knows one delay): they are neither read nor answered meanwhile. The first few mistakes cost nothing, and
nobody but the offending connections is slowed.

Invariants: what is held is bounded; it holds nothing but its socket, and gives that up at once when room is wanted.
"""

from __future__ import annotations

from typing import Final, Protocol

from semel.server.event_loop import EventLoop, Timer

FREE_OFFENCES: Final = 3
DELAY_S_MIN: Final = 0.1
DELAY_S_MAX: Final = 5.0
HELD_MAX: Final = 256


class Held(Protocol):
    """A connection, as far as this file needs to know it."""

    peer_host: str

    def let_go(self) -> None:
        """Close now."""


def delay_s(offences: int) -> float:
    """How long the ``offences``-th connection of a kind is held."""
    if offences <= FREE_OFFENCES:
        return 0.0
    doublings = min(offences - FREE_OFFENCES - 1, 10)
    return float(min(DELAY_S_MIN * 2**doublings, DELAY_S_MAX))


class Offenders:
    """One server's held connections, the oldest first."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._held: dict[Held, Timer] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connection: Held, for_s: float) -> None:
        if len(self._held) >= HELD_MAX:
            self._let_go(next(iter(self._held)))
        self._held[connection] = self._loop.call_later(for_s, self._let_go, connection)

    def forget(self, connection: Held) -> None:
        """It has gone."""
        timer = self._held.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def make_room(self, peer_host: str | None) -> Held | None:
        """Let go of the oldest one, or of the oldest from an address; None if there is none."""
        for connection in self._held:
            if peer_host is None or connection.peer_host == peer_host:
                self._let_go(connection)
                return connection
        return None

    def let_all_go(self) -> None:
        for connection in list(self._held):
            self._let_go(connection)

    def _let_go(self, connection: Held) -> None:
        self.forget(connection)
        connection.let_go()
