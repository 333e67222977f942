"""Which seeds have groups, and which."""

from __future__ import annotations

from random import Random
from typing import Final

from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.story import GroupPlan, GroupStory, Strategy

GROUP_CHANCE: Final = 0.05
SHORT_RETENTION_MS: Final = 2_500


def seed_has_groups(seed: int) -> bool:
    """Whether the simulation of ``seed`` has any. Few seeds, and none that has flows or copies."""
    has = Random(f"{seed}/groups").random() < GROUP_CHANCE
    return has and not seed_has_flows(seed) and not seed_has_copies(seed)


def draw_groups(random: Random) -> GroupStory:
    """One or two groups, which read one or two topics."""
    topics = {name: random.choice((1, 2, 3)) for name in ("t0", "t1")[: random.choice((1, 1, 2))]}
    offsets_expire = random.random() < 0.35
    return GroupStory(
        plans=tuple(
            _draw_plan(f"g{number}", tuple(topics), random) for number in range(random.choice((1, 1, 2)))
        ),
        topics=topics,
        group_settings=GroupSettings(
            initial_rebalance_delay_ms=random.choice((0, 0, 400)), min_session_timeout_ms=500
        ),
        offset_settings=(
            OffsetSettings(retention_ms=SHORT_RETENTION_MS) if offsets_expire else OffsetSettings()
        ),
        offsets_expire=offsets_expire,
    )


def _draw_plan(group_id: str, topics: tuple[str, ...], random: Random) -> GroupPlan:
    session_timeout_ms = random.choice((800, 1_500, 3_000))
    members = random.choice((1, 2, 3, 4, 5))
    return GroupPlan(
        group_id,
        topics,
        random.choice(list(Strategy)),
        session_timeout_ms,
        rebalance_timeout_ms=random.choice((800, 1_500, 3_000)),
        heartbeat_ms=session_timeout_ms // random.choice((4, 8, 16)),
        members=members,
        static_members=random.choice((0, 0, 1, members)),
    )
