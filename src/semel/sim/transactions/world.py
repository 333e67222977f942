"""All of a history that is there for its transactions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.server.storage.storage import Storage
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.operator import Part
from semel.sim.server.witness import Witness
from semel.sim.transactions.ledger import TransactionLedger
from semel.sim.transactions.operator import TransactionMix, TransactionOperator
from semel.sim.transactions.story import TransactionStory
from semel.sim.world.surroundings import Surroundings

Stream = Callable[[str], Random]


class TransactionWorld(Part[TransactionOperator]):
    """Of one history."""

    def __init__(
        self,
        story: TransactionStory,
        stream: Stream,
        around: Surroundings,
        server: SimulatedServer,
        witness: Witness,
    ) -> None:
        self.story: Final = story
        ledger = TransactionLedger(
            story, around.watchers, lambda: around.scheduler.now_ms, lambda: server.lost_ms
        )
        witness.beside.append(ledger)

        def begin() -> TransactionOperator:
            mix = TransactionMix.draw(stream("transaction mix"))
            return TransactionOperator(story, server, stream("transaction operator"), around, mix)

        super().__init__(ledger, begin)

    def prepare(self, storage: Storage, now_ms: int) -> None:
        """Before the faults begin: names that somebody had already."""
        grants = [(plan.transactional_id, plan.first, now_ms) for plan in self.story.plans if plan.first]
        storage.transaction_log.submit(storage.transactions.take_over(grants), now_ms)
