"""Source and destination of a history's copies: which cluster is which, and how to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.sim.cluster import SimulatedCluster
from semel.sim.copies.ledger import SiteLedger
from semel.sim.disk import Disk
from semel.sim.network import Network
from semel.sim.process import Process
from semel.sim.server import SimulatedServer
from semel.sim.session import Session

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
