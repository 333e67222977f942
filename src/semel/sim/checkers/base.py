"""What every checker may watch; each overrides what its invariant needs."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.watchers import (
    GroupWatcher,
    LeaseWatcher,
    LogWatcher,
    ProducerWatcher,
    RecoveryWatcher,
    RoomWatcher,
)
from semel.sim.copies.watch import CopyWatcher
from semel.sim.flows.watcher import FlowWatcher
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.world.history import Violation


class Checker(
    LogWatcher,
    RecoveryWatcher,
    ProducerWatcher,
    LeaseWatcher,
    RoomWatcher,
    GroupWatcher,
    SinkWatcher,
    FlowWatcher,
    CopyWatcher,
):
    """Watches one history for one invariant."""

    name: ClassVar[str] = ""

    def violated(self, evidence: str) -> Violation:
        return Violation(self.name, evidence)
