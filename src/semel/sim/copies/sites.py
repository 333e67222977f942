"""Source and destination of a history's copies: which cluster is which, and how to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.sim.clients.cluster import SimulatedCluster
from semel.sim.clients.session import Session
from semel.sim.copies.ledger import SiteLedger
from semel.sim.server.machine import SimulatedServer
from semel.sim.world.disk import Disk
from semel.sim.world.network import Network
from semel.sim.world.process import Process

REQUEST_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster, and what was seen there."""

    server: SimulatedServer
    network: Network
    disk: Disk
    ledger: SiteLedger

    def client(self, name: str, process: Process) -> SimulatedCluster:
        """For ``process``, which is not a copy."""
        return SimulatedCluster(process, Session(name, process, self.network), REQUEST_TIMEOUT_MS)


@dataclass(frozen=True, slots=True)
class Sites:
    """Both."""

    source: Site
    destination: Site
