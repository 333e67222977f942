"""When something of another copy of a job may have come to a copy."""

from __future__ import annotations

import pytest
from tests.sim.copies.smallest import story

from semel.sim.campaign.simulation import Simulation
from semel.sim.copies.life import LATE_MS, CopyLife
from semel.sim.world.faults import FaultMix


def lives(*spans: tuple[int, int | None]) -> list[CopyLife]:
    """Of one job, from when to when each."""
    of = story()
    world = Simulation(0, mix=FaultMix(), copies=of)
    assert world.copies is not None
    made = []
    for began_ms, ended_ms in spans:
        life = CopyLife(
            of.job,
            "c0.0",
            world.stream("life"),
            world.copies.sites,
            world.around,
            until_end=False,
            on_doom=lambda _: None,
            on_end=lambda *_: None,
        )
        life.began_ms, life.ended_ms = began_ms, ended_ms  # type: ignore[misc]
        made.append(life)
    return made


@pytest.mark.parametrize(
    ("first", "had_rival"),
    [((0, None), True), ((0, 4), True), ((0, 5), True), ((30, None), False)],
)
def test_who_lived_at_the_same_time_is_a_rival(first: tuple[int, int | None], had_rival: bool) -> None:
    assert lives(first, (5, 20))[1].had_rival is had_rival


def test_what_the_dead_have_sent_comes_late_but_not_for_ever() -> None:
    assert lives((0, 5), (LATE_MS, None))[1].had_rival
    assert not lives((0, 5), (LATE_MS + 6, None))[1].had_rival


def test_one_alone_has_no_rival() -> None:
    assert not lives((0, None))[0].had_rival
