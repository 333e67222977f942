"""Which flows a seed has."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.core.flow.state import inline_bytes_max
from semel.flow.stage_state import StateBounds
from semel.sim.flows.steps import STATE_ROW_BYTES, Doing, End
from semel.sim.flows.story import FlowStory

FLOW_CHANCE: Final = 0.05
NAME: Final = "f0"


def seed_has_flows(seed: int) -> bool:
    """Whether the simulation of ``seed`` has any."""
    return has_flows(Random(f"{seed}/flows"))


def has_flows(random: Random) -> bool:
    """Few seeds: they are the dearest."""
    return random.random() < FLOW_CHANCE


def draw_flow(random: Random, elapsed_ms: Callable[[], int]) -> FlowStory:
    """One flow of two or three stages."""
    users = random.choice((3, 6, 12))
    end = random.choice((End.FOLDED, End.FOLDED, End.COUNTED, End.IN_WINDOWS, End.JOINED))
    doing = Doing(
        sources=("f0.a", "f0.b")[: 2 if end is End.JOINED else random.choice((1, 2, 2))],
        partition_count=random.choice((1, 2)),
        end=end,
        forgets_at=random.choice((0, 0, 7)),
        idle=random.choice((None, "3 s")),
        repairs=random.random() < 0.5,
    )
    return FlowStory(
        NAME,
        doing,
        source_partitions=random.choice((1, 2)),
        breaks=random.random() < 0.4,
        users=users,
        row_gap_ms=random.choice((60, 150, 300)),
        bounds=StateBounds(
            inline_bytes_max=min(
                random.choice((0, 2, 5, 1_000)) * STATE_ROW_BYTES, inline_bytes_max(doing.partition_count)
            ),
            snapshot_changes_min=random.choice((2, 20, 1_000)),
        ),
        rows_max=random.choice(((8,), (4, 8, 40), (8, 1_000))),
        entries_max=random.choice(((1,), (1, 2, 5), (3, 64))),
        entry_rows_max=random.choice(((3,), (2, 5, 20), (20, 65_536))),
        elapsed_ms=elapsed_ms,
    )
