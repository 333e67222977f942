"""In some histories the topic is compacted: every row has a key, and some are tombstones.

Who sends them, when and how they fail is as everywhere else. What a key is and which row is a tombstone is drawn from
the row's value, so that a row that is sent again says the same again.
"""

from __future__ import annotations

from random import Random
from typing import Final
from zlib import crc32

from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups

COMPACTION_CHANCE: Final = 0.15
KEYS: Final = (2, 6, 30, 400)
TOMBSTONES: Final = (0, 3, 10)  # one of so many rows is one; 0: none
MAP_BYTES: Final = (1 << 20, 300)  # the smaller one is full after a dozen keys
DAY_MS: Final = 86_400_000  # clocks are turned by less
DELETE_RETENTION_MS: Final = (0, 1_500, DAY_MS)
MAINTAIN_EVERY_MS: Final = (150, 600, 3_000)


def seed_is_compacted(seed: int) -> bool:
    """Whether the topic of ``seed`` is compacted. Some seeds, and none that has flows, copies or groups."""
    is_it = Random(f"{seed}/compaction").random() < COMPACTION_CHANCE
    return is_it and not (seed_has_flows(seed) or seed_has_copies(seed) or seed_has_groups(seed))


class Compaction:
    """The topic's settings, the cleaner's, and what the rows are."""

    def __init__(self, random: Random) -> None:
        self._keys = random.choice(KEYS)
        self._tombstones = random.choice(TOMBSTONES)
        self._delete_retention_ms = random.choice(DELETE_RETENTION_MS)
        self._dirty_ratio = random.choice((0.01, 0.3, 0.5))
        self._lag_min_ms = random.choice((0, 0, 2_000))
        self._lag_max_ms = random.choice((None, 3_000))
        self.map_bytes: Final = random.choice(MAP_BYTES)
        self.maintain_every_ms: Final = random.choice(MAINTAIN_EVERY_MS)

    @property
    def topic_config(self) -> dict[str, str]:
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": str(self._dirty_ratio),
            "min.compaction.lag.ms": str(self._lag_min_ms),
            "delete.retention.ms": str(self._delete_retention_ms),
        }
        if self._lag_max_ms is not None:
            config["max.compaction.lag.ms"] = str(self._lag_max_ms)
        return config

    @property
    def keeps_tombstones(self) -> bool:
        """Whether no history is long enough for one to go."""
        return self._delete_retention_ms == DAY_MS

    def key_of(self, value: bytes) -> bytes:
        return b"k%d" % (crc32(value) % self._keys)

    def is_tombstone(self, value: bytes) -> bool:
        return bool(self._tombstones) and crc32(value[::-1]) % self._tombstones == 0
