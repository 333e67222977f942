"""Which seeds have copies, and which."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.copy.plan import Upkeep
from semel.sim.copies.story import CopyStory
from semel.sim.flows.drawing import seed_has_flows

COPY_CHANCE: Final = 0.05
DAY_MS: Final = 24 * 3_600_000
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


def seed_has_copies(seed: int) -> bool:
    """Whether the simulation of ``seed`` has any. Few seeds, and none that has flows: both are dear."""
    return Random(f"{seed}/copies").random() < COPY_CHANCE and not seed_has_flows(seed)


def draw_copies(random: Random, now_ms: Callable[[], int]) -> CopyStory:
    """One or two topics, of one to three partitions."""
    settings = dict(FOR_EVER)
    if random.random() < 0.25:
        settings["message.timestamp.type"] = "LogAppendTime"  # such batches cannot be sent as they are
    if random.random() < 0.2:
        settings["compression.type"] = random.choice(("gzip", "zstd"))
    return CopyStory(
        topics={name: random.choice((1, 2, 3)) for name in ("a", "b")[: random.choice((1, 1, 2))]},
        settings=settings,
        destination_is_first=random.random() < 0.5,
        row_gap_ms=random.choice((40, 100, 250)),
        rows_max=random.choice((150, 300)),
        linger_ms=random.choice((20, 100, 300)),
        now_ms=now_ms,
        upkeep=Upkeep(
            begun_every=random.choice((3, 20, 1_000)),
            kept_ms=random.choice((0, 2_000, DAY_MS)),
            run_ms_max=random.choice((2_000, 8_000, DAY_MS)),
        ),
    )
