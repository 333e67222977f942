"""What every simulated client needs of the world around it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.sim.world.faults import Counts
from semel.sim.world.history import History
from semel.sim.world.network import Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.sim.world.watchers import Watchers


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One history's; the same for all of its clients."""

    scheduler: Scheduler
    network: Network
    trace: Trace
    counts: Counts
    history: History
    watchers: Watchers
