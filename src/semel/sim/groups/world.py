"""All of a history that is there for its groups."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.sim.groups.ledger import GroupLedger
from semel.sim.groups.operator import GroupMix, GroupOperator
from semel.sim.groups.story import GroupStory
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.operator import Part
from semel.sim.server.witness import Witness
from semel.sim.world.surroundings import Surroundings

Stream = Callable[[str], Random]


class GroupWorld(Part[GroupOperator]):
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
        ledger = GroupLedger(story, around.watchers, lambda: around.scheduler.now_ms)
        witness.beside.append(ledger)

        def begin() -> GroupOperator:
            mix = GroupMix.draw(stream("group mix"))
            return GroupOperator(story, server, stream("group operator"), around, mix)

        super().__init__(ledger, begin)
