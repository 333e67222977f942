"""Who looks on while a data folder is used: the simulator's checkers, and nobody in a server.

Invariant: an observer changes nothing, and is told of a write as a whole: a server pays one empty call for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.core.identity import Refused
from semel.errors import ErrorCode
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.types import Lease, TopicPartition

if TYPE_CHECKING:
    from semel.core.lease import Leases, LiveLeases
    from semel.server.storage.reading import Reading


class StorageObserver:
    """Sees nothing; whoever wants to see something overrides what tells of it."""

    def judged(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        """These were appended or refused, with one write as far as possible."""

    def trims(self, reading: Reading, before_offset: int) -> None:
        """What lies below ``before_offset`` of a partition can be read now, and soon no more."""

    def log_start_raised(self, name: TopicPartition, log_start_offset: int) -> None:
        """From now on readers see that the log starts here, whatever is still to be removed."""

    def trimmed(self, name: TopicPartition, code: ErrorCode) -> None:
        """What came of a wish to delete records."""

    def retention_applied(self, name: TopicPartition, removed: int) -> None:
        """So many segments were too old or too many."""

    def lease_asked(
        self, producer_id: int, named: Sequence[TopicPartition], response: Lease | Refused, issued_below: int
    ) -> None:
        """Somebody asked for a lease, or for one once more; until then those below had been issued."""

    def leases_looked_at(self, leases: Leases, live: LiveLeases) -> None:
        """Those that are over by now were looked for, and logged where they could be."""

    def leases_over(self, expired_below: int) -> None:
        """From now on partitions refuse these."""

    def lease_told_of(self, producer_id: int, remaining_ms: int) -> None:
        """Somebody is told how long a lease lives."""


NOBODY: Final = StorageObserver()
