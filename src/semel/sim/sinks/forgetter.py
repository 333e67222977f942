"""Who makes the server forget a sink's name, as a broker does with one that rests for long.

semel's own server forgets no name. Apache Kafka does, and grants it anew with another producer id at epoch 0; here it
happens at any time, also to a name that was granted a moment ago, and whatever the sink does meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.core.sink.epochs import identity_name
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.story import SinkStory
from semel.sim.sinks.trimmer import LOOK_AGAIN_MS, MOMENTS
from semel.sim.world.faults import Fault
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms

Forget = Callable[[Callable[[str], bool]], None]  # the names of which this is true


class NameForgetter:
    """Of one sink."""

    def __init__(
        self, story: SinkStory, random: Random, around: Surroundings, interval_ms: int, forget: Forget
    ) -> None:
        self.wanted = True  # False: no more
        self._story: Final = story
        self._random = random
        self._around = around
        self._interval_ms = interval_ms  # mean
        self._forget = forget
        self._later()

    def _later(self) -> None:
        moment = self._random.choice(MOMENTS)
        delay_ms = drawn_wait_ms(self._random, self._interval_ms)
        self._around.scheduler.after(delay_ms, lambda: self._at(moment))

    def _at(self, moment: Callable[[SimulatedDriver], bool]) -> None:
        if not self.wanted:
            return
        if not moment(self._story.drivers[-1]):
            self._around.scheduler.after(LOOK_AGAIN_MS, lambda: self._at(moment))
            return
        if self._around.counts.occurs(Fault.SINK_NAME_FORGOTTEN):
            self._forget(self._is_ours)
        self._later()

    def _is_ours(self, name: str) -> bool:
        """A name of the sink in any generation."""
        return name.partition("@")[0] in {identity_name(sink_id, 0) for sink_id in self._story.sink_ids}
