"""All of a history that is there for its groups."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.sim.groups.ledger import GroupLedger
from semel.sim.groups.operator import GroupMix, GroupOperator
from semel.sim.groups.story import GroupStory
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.witness import Witness
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings

Stream = Callable[[str], Random]


class GroupWorld:
    """Of one history."""

    def __init__(
        self,
        story: GroupStory,
        stream: Stream,
        around: Surroundings,
        server: SimulatedServer,
        witness: Witness,
    ) -> None:
        self.story: Final = story
        self._stream, self._around, self._server = stream, around, server
        self._ledger = GroupLedger(story, around.watchers, lambda: around.scheduler.now_ms)
        self._operator: GroupOperator | None = None
        witness.beside.append(self._ledger)

    def start(self) -> None:
        """The faults begin."""
        mix = GroupMix.draw(self._stream("group mix"))
        self._operator = GroupOperator(
            self.story, self._server, self._stream("group operator"), self._around, mix
        )

    def stop(self) -> None:
        """No more disasters; groups must become stable."""
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

    def end(self) -> None:
        """Members are gone; what is done to the disk behind it is none of the checkers' business."""
        self._ledger.is_on = False
        if self._operator is not None:
            self._operator.end()
