"""Which requests of one connection have begun and not taken effect yet, and what may begin beside them.

A client that sends several requests without waiting for answers counts on each of them to see what those before it
did: Apache Kafka handles one request of a connection at a time (``SocketServer`` mutes its channel). Here answers
wait for the disk, so that is not for free: a request begins once those before it have taken effect, but that

- produce requests begin behind produce requests. They are appended in their order anyway, and go to the disk together;
  only behind one that is compressed again nothing begins until it is appended, as it would be appended before it;
- a fetch that waits for rows has no effect, and holds nobody up.

A produce request has taken effect when its rows are visible, or refused. Without an answer (acks=0) nobody waits for
that, so nothing is kept of such requests but where they wrote, until somebody wants to see it.

Invariant: what has begun is counted until it ends, by whichever way; both numbers are bounded by the open requests of
the connection, and ``unanswered`` by the partitions that there are.
"""

from __future__ import annotations

from semel.server.durability import Syncable


class InOrder:
    """One connection's requests, as far as they are under way."""

    __slots__ = ("changes", "produces", "unanswered")

    def __init__(self) -> None:
        self.produces = 0  # whose rows are not visible yet
        self.changes = 0  # all others: what they do, or say, waits for the disk or for their turn
        self.unanswered: dict[Syncable, None] = {}  # written to; nobody waits for that to be visible

    @property
    def is_open(self) -> bool:
        """Whether there is anything that a request may have to wait for."""
        return bool(self.produces or self.changes or self.unanswered)

    def admits(self, is_produce: bool) -> bool:
        """Whether the next request may begin now."""
        return not self.changes and (is_produce or not self.produces)

    def begin(self, is_produce: bool) -> None:
        if is_produce:
            self.produces += 1
        else:
            self.changes += 1

    def end(self, is_produce: bool) -> None:
        if is_produce:
            self.produces -= 1
        else:
            self.changes -= 1

    def take_unseen(self) -> list[Syncable]:
        """Where rows are not visible yet that no answer waits for: to be synced before the next that is no produce."""
        unseen = [partition for partition in self.unanswered if partition.has_unseen]
        self.unanswered.clear()
        return unseen
