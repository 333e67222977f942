"""What rots beside the logs while a server is down costs nothing, or is said; and who believed it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.sim.campaign import coda, simulation
from semel.sim.campaign.simulation import SeedResult, Simulation, Telling
from semel.sim.plants.catalogue import PLANTS
from semel.sim.server import rot_beside
from semel.sim.world.faults import NO_FAULTS, Fault

SHORT = Telling(operations_min=100, faults_min=0, faults_for_ms_max=4_000)
SEEDS_MAX = 12


def short_histories(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeedResult]:
    """Without any other fault; those in which this one bit."""
    monkeypatch.setattr(coda, "ROT_CHANCE", 0.0)
    monkeypatch.setattr(rot_beside, "KINDS", (fault,))
    for seed in range(SEEDS_MAX):
        result = Simulation(seed, SHORT, mix=NO_FAULTS, sinks=()).run()
        if result.faults[fault]:
            yield result


@pytest.mark.parametrize("fault", dict.fromkeys(rot_beside.KINDS))
def test_nothing_is_missed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    result = next(short_histories(fault, monkeypatch))
    assert result.violation is None
    assert result.verdicts[rot_beside.NOT_STARTED] == (fault is Fault.METADATA_ROT)


def test_an_index_that_is_trusted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with PLANTS["index_trusted"].planted():
        assert any(result.violation for result in short_histories(Fault.INDEX_ROT, monkeypatch))


def test_a_trim_that_was_told_to_have_failed_may_show_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by seed 2618769: the start was renamed to its place, and the folder could not be synced."""

    def live_coda(world: Simulation) -> None:
        storage = world.server.storage
        assert storage is not None
        for tp in world.server.tps:
            partition = storage.partition(tp.topic, tp.partition)
            assert partition is not None
            storage._log_starts.raise_to(tp, partition.high_watermark * 2 // 3)
        coda.live_coda(world)

    monkeypatch.setattr(simulation, "live_coda", live_coda)
    assert next(short_histories(Fault.INDEX_ROT, monkeypatch)).violation is None


def test_an_end_that_was_due_inside_a_step_does_not_come_amid_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by seed 9222: planned before the history healed, it ended the run itself."""

    def live_coda(world: Simulation) -> None:
        assert world.server._mount is not None
        world.server._mount.end_inside_step(0)
        coda.live_coda(world)

    monkeypatch.setattr(simulation, "live_coda", live_coda)
    assert next(short_histories(Fault.INDEX_ROT, monkeypatch)).violation is None
