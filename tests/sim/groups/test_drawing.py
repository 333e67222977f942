"""Which seeds have groups: few, and none that has flows or copies."""

from __future__ import annotations

from random import Random

from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import draw_groups, seed_has_groups


def test_one_seed_in_twenty_has_groups_and_nothing_else() -> None:
    found = [seed for seed in range(2_000) if seed_has_groups(seed)]
    assert 60 <= len(found) <= 140
    assert not any(seed_has_flows(seed) or seed_has_copies(seed) for seed in found)


def test_what_is_drawn_can_be_lived_through() -> None:
    for number in range(50):
        story = draw_groups(Random(number))
        for plan in story.plans:
            assert set(plan.topics) <= story.topics.keys()
            assert plan.static_members <= plan.members
            assert plan.heartbeat_ms * 3 < plan.session_timeout_ms
            assert plan.session_timeout_ms >= story.group_settings.min_session_timeout_ms
