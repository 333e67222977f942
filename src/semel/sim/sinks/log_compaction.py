"""In some histories with sinks the decision log is compacted, as a new one is; in the others it is an older one, and
kept whole.

What its records' keys are, and which get tombstones, is the sinks' own doing.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.server.compaction import DAY_MS, seed_is_compacted
from semel.sim.sinks.drawing import seed_has_sinks

COMPACTED_CHANCE: Final = 0.6


def seed_sweeps(seed: int) -> bool:
    """Whether the decision log of ``seed`` is compacted, and has sinks that sweep: a flow's stages do not."""
    others = (seed_has_flows, seed_has_copies, seed_has_groups, seed_is_compacted)
    return not any(has(seed) for has in others) and seed_has_sinks(seed) and draw_sink_log(seed) is not None


def draw_sink_log(seed: int) -> SinkLogCompaction | None:
    """As :meth:`semel.sim.campaign.simulation.Simulation.stream` has it."""
    random = Random(f"{seed}/sink log")
    return SinkLogCompaction(random) if random.random() < COMPACTED_CHANCE else None


class SinkLogCompaction:
    """The topic's settings: segments that are full soon, and a cleaner that comes often."""

    def __init__(self, random: Random) -> None:
        self._segment_bytes = random.choice((4_000, 8_000, 20_000))
        self._delete_retention_ms = random.choice((0, 1_500, DAY_MS))
        self.swept_at: Final = random.choice((1, 2, 8))  # no history is long enough for many more
        self._dirty_ratio = random.choice((0.01, 0.3))
        self.maintain_every_ms: Final = random.choice((150, 600))

    @property
    def topic_config(self) -> dict[str, str]:
        return {
            "segment.bytes": str(self._segment_bytes),
            "min.cleanable.dirty.ratio": str(self._dirty_ratio),
            "delete.retention.ms": str(self._delete_retention_ms),
        }

    @property
    def keeps_tombstones(self) -> bool:
        """Whether no history is long enough for one to go."""
        return self._delete_retention_ms == DAY_MS

    def is_tombstone(self, value: bytes) -> bool:
        return not value
