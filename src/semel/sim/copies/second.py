"""The second cluster: a server of its own, with a disk and a network of its own, under faults of the same kinds.

No law of the server is judged there: that is what the first one is for, and all other seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.core.log.config import LogConfig
from semel.sim.flows.stories import Stories
from semel.sim.server.batch_limit import BatchLimit
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.room_settings import ProducersMax
from semel.sim.server.topic_codec import TopicCodec
from semel.sim.server.witness import Witness
from semel.sim.world.disk import Disk
from semel.sim.world.faults import Counts, FaultMix
from semel.sim.world.history import History
from semel.sim.world.network import Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.sim.world.watchers import Watchers
from semel.types import TopicPartition

UNUSED: Final = TopicPartition("unused", 0)


class SecondTrace(Trace):
    """The history's trace, with another name for who is in it."""

    def __init__(self, inner: Trace, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._inner = inner

    def note(self, who: str, what: str) -> None:
        self._inner.note(f"2nd {who}", what)


class SecondCluster:
    """``stream`` gives each part random numbers of its own."""

    def __init__(
        self,
        stream: Callable[[str], Random],
        scheduler: Scheduler,
        trace: Trace,
        counts: Counts,
        mix: Callable[[], FaultMix],
        config: LogConfig,
    ) -> None:
        def own(name: str) -> Random:
            return stream(f"second {name}")

        trace = SecondTrace(trace, scheduler)
        history = History()
        self.network: Final = Network(scheduler, own("network"), own("replays"), trace, counts, mix)
        self.disk: Final = Disk(own("disk"), trace, counts, mix)
        self.witness: Final = Witness(
            [UNUSED], Stories(), history, Watchers(), counts, trace, lambda: scheduler.now_ms
        )
        batch_limit = BatchLimit(own("batch limit"))
        producers_max = ProducersMax(own("room"), 1, beside_sinks=True)
        producers_max.suffice()
        self.server: Final = SimulatedServer(
            self.disk,
            config,
            own("server"),
            scheduler,
            self.network,
            trace,
            counts,
            mix,
            history,
            self.witness,
            durable=True,
            lease_ms=60_000,
            producers_max=producers_max,
            batch_limit=batch_limit,
            topic_codec=TopicCodec(own("topic codec"), batch_limit),
        )
