"""All of a history that is there for its copies: the second cluster, both sites, and who lives between them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Final

from semel.core.log.config import LogConfig
from semel.sim.copies.feeder import CopyFeeder
from semel.sim.copies.operator import CopyMix, CopyOperator
from semel.sim.copies.second import SecondCluster
from semel.sim.copies.sites import Site, Sites
from semel.sim.copies.story import DESTINATION, SOURCE, CopyStory
from semel.sim.copies.upheavals import CopyUpheavals, UpheavalMix
from semel.sim.copies.watch import CopyWatch
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.witness import Witness
from semel.sim.world.disk import Disk
from semel.sim.world.faults import FaultMix
from semel.sim.world.fiber import is_simulated
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings

Stream = Callable[[str], Random]
logging.getLogger("semel.copy").addFilter(
    lambda _: not is_simulated()
)  # what it warns of is what happens here


class CopyWorld:
    """Of one history. ``first`` is the server that all histories have, with its disk and its witness."""

    def __init__(
        self,
        story: CopyStory,
        stream: Stream,
        around: Surroundings,
        mix: Callable[[], FaultMix],
        first: tuple[SimulatedServer, Disk, Witness],
    ) -> None:
        self.story: Final = story
        self._stream = stream
        self._around = around
        self.watch: Final = CopyWatch(story, around.watchers)
        of_config = stream("second config")
        self.second: Final = SecondCluster(
            stream,
            around.scheduler,
            around.trace,
            around.counts,
            mix,
            LogConfig(segment_bytes=of_config.choice((1_200, 3_000, 20_000)), index_interval_bytes=300),
        )
        server, disk, witness = first
        roles = (DESTINATION, SOURCE) if story.destination_is_first else (SOURCE, DESTINATION)
        ledgers = [self.watch.ledgers[role] for role in roles]
        witness.beside.append(ledgers[0])
        self.second.witness.beside.append(ledgers[1])
        sites = dict(
            zip(
                roles,
                (
                    Site(server, around.network, disk, ledgers[0]),
                    Site(self.second.server, self.second.network, self.second.disk, ledgers[1]),
                ),
                strict=True,
            )
        )
        self.sites: Final = Sites(sites[SOURCE], sites[DESTINATION])

    def start(self) -> None:
        """Both servers are up, and the faults begin."""
        mix = CopyMix.draw(self._stream("copy mix"))
        self._feeder = CopyFeeder(self.story, self.sites.source, self._stream("copy feeder"), self._around)
        self._operator = CopyOperator(
            self.story, self.sites, self._stream("copy operator"), self._around, mix
        )
        self._upheavals = CopyUpheavals(
            self.story,
            self.sites,
            self._stream("copy upheavals"),
            self._around,
            UpheavalMix.draw(self._stream("copy upheaval mix")),
            self._operator.start_rival,
        )
        self._operator.start()

    def stop(self) -> None:
        """No more rows, no more disasters; what is there must be copied."""
        self._feeder.stop()
        self._upheavals.wanted = False
        self._operator.stop()
        if not self.second.server.is_healthy:
            self.second.server.kill()

    @property
    def is_settled(self) -> bool:
        return self.second.server.is_healthy and self._operator.is_settled and not self._upheavals.is_busy

    @property
    def what_is_open(self) -> list[str]:
        return self._operator.what_is_open

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        return self._operator.processes

    def finished(self) -> None:
        """Show the checkers what is there at the end; what is done to the disks behind it is none of theirs."""
        self.watch.end()

    def end(self) -> None:
        """Its fibers must not outlive the history."""
        self.watch.is_on = False
        if hasattr(self, "_operator"):
            self._operator.end()
