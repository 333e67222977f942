"""A simulated member does what its group waits for."""

from __future__ import annotations

from semel.sim.campaign.simulation import run_seed


def test_a_member_lets_go_though_it_was_cut_off_before_it_began_to_read() -> None:
    """In the generation between, it had more than it was left in the next one, and nobody had looked."""
    assert run_seed(4_335_799).violation is None
