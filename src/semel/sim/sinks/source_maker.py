"""Who deletes a sink's source topic and makes it anew, with fewer, as many or more rows than it had.

Offsets begin at 0 again; whoever goes on at an offset of the older topic skips rows of the new one, or never comes to
them.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.sim.sinks.story import SinkStory
from semel.sim.world.faults import Fault
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms

INTERVALS_MS: Final = (0, 0, 0, 2_000, 6_000)  # mean; 0: never
TIMES_MAX: Final = 3
MORE_ROWS_MAX: Final = 40


class SourceMaker:
    """Beside one sink, whose rows do not differ: an attempt that is cut off has fewer, and is known by that."""

    def __init__(self, story: SinkStory, random: Random, around: Surroundings) -> None:
        self.wanted = True  # False: no more after this one
        self._story = story
        self._random = random
        self._around = around
        self._times = 0
        self._interval_ms = 0 if story.rows_differ else random.choice(INTERVALS_MS)
        if self._interval_ms:
            story.fails_on_data_loss = random.random() < 0.5
            self._later()

    def _later(self) -> None:
        self._around.scheduler.after(drawn_wait_ms(self._random, self._interval_ms), self._make_anew)

    def _make_anew(self) -> None:
        if not self.wanted or self._times == TIMES_MAX:
            return
        if self._around.counts.bites(Fault.SINK_SOURCE_ANEW, self._random, 1.0):
            self._times += 1
            before = max(self._story.heads().values())
            rows = self._random.choice((0, before, self._random.randint(0, before + MORE_ROWS_MAX)))
            self._story.make_source_anew(rows)
            self._around.trace.note(self._story.sink_id, f"source made anew, {rows} rows at once")
        self._later()
