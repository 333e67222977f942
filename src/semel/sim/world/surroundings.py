"""What every simulated client needs of the world around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.sim.checkers import Checker
from semel.sim.world.faults import Counts
from semel.sim.world.history import History
from semel.sim.world.network import Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.types import Lease, ProducerGrant


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One history's; the same for all of its clients."""

    scheduler: Scheduler
    network: Network
    trace: Trace
    counts: Counts
    history: History
    checkers: Sequence[Checker]

    def show_granted(self, granted: ProducerGrant | Lease, *, is_fresh: bool) -> None:
        """A client was told that it may write under ``granted``; ``is_fresh``: under an id that is new."""
        for checker in self.checkers:
            checker.granted(granted.producer_id, granted.producer_epoch, is_fresh=is_fresh)
