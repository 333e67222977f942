"""Which seeds have transactions: one in twelve, and none that has anything else."""

from __future__ import annotations

from random import Random

from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.server.compaction import seed_is_compacted
from semel.sim.sinks.drawing import seed_has_sinks
from semel.sim.transactions.drawing import draw_transactions, seed_has_transactions
from semel.sim.transactions.story import Protocol


def test_one_seed_in_twelve_has_transactions_and_nothing_else() -> None:
    found = [seed for seed in range(2_400) if seed_has_transactions(seed)]
    assert 160 <= len(found) <= 240
    others = (seed_has_flows, seed_has_copies, seed_has_groups, seed_has_sinks, seed_is_compacted)
    assert not any(has_other(seed) for seed in found for has_other in others)


def test_what_is_drawn_can_be_lived_through() -> None:
    drawn = [draw_transactions(Random(number)) for number in range(50)]
    for story in drawn:
        for plan in story.plans:
            assert plan.input in story.tps
            assert plan.protocols
    assert {protocol for story in drawn for plan in story.plans for protocol in plan.protocols} == {*Protocol}
