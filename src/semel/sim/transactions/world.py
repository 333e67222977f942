"""All of a history that is there for its transactions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.server.storage.storage import Storage
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.witness import Witness
from semel.sim.transactions.ledger import TransactionLedger
from semel.sim.transactions.operator import TransactionMix, TransactionOperator
from semel.sim.transactions.story import TransactionStory
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings

Stream = Callable[[str], Random]


class TransactionWorld:
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
        self._stream, self._around, self._server = stream, around, server
        self._ledger = TransactionLedger(story, around.watchers, lambda: around.scheduler.now_ms)
        self._operator: TransactionOperator | None = None
        witness.beside.append(self._ledger)

    def prepare(self, storage: Storage, now_ms: int) -> None:
        """Before the faults begin: names that somebody had already."""
        grants = [(plan.transactional_id, plan.first, now_ms) for plan in self.story.plans if plan.first]
        storage.transaction_log.submit(storage.transactions.take_over(grants), now_ms)

    def start(self) -> None:
        """The faults begin."""
        mix = TransactionMix.draw(self._stream("transaction mix"))
        self._operator = TransactionOperator(
            self.story, self._server, self._stream("transaction operator"), self._around, mix
        )

    def stop(self) -> None:
        """No more disasters; what is open must end."""
        if self._operator is not None:
            self._operator.stop()

    @property
    def is_settled(self) -> bool:
        return self._operator is None or self._operator.is_settled

    @property
    def what_is_open(self) -> list[str]:
        return [] if self._operator is None else self._operator.what_is_open

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        return [] if self._operator is None else self._operator.processes

    def finished(self) -> None:
        """All is there: the histories are judged."""
        if self._operator is not None:
            self._operator.finished()

    def end(self) -> None:
        """Clients are gone; what is done to the disk behind it is none of the checkers' business."""
        self._ledger.is_on = False
        if self._operator is not None:
            self._operator.end()
