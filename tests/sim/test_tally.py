"""The page of counts is true to the seeds that it names."""

from semel.sim.swarm import SwarmReport
from semel.sim.tally import page


def test_a_range_that_begins_later_is_named() -> None:
    text = page(SwarmReport(first_seed=1_000, seeds=50))
    assert "`semel sim --seeds 50 --seed 1000 --page docs/simulated.md`" in text
    assert "Seeds 1000 to 1049;" in text
