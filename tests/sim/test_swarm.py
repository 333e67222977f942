"""The swarm: hundreds of seeds hold every invariant, meet every fault, and repeat to the byte."""

import os
import subprocess
import sys

import pytest

from semel.sim.faults import Fault
from semel.sim.simulation import run_seed
from semel.sim.swarm import SwarmReport, run_seeds


@pytest.mark.slow
def test_every_invariant_holds_over_300_seeds_that_meet_every_fault() -> None:
    report = run_seeds(0, 300, workers=2)
    assert report.is_clean, "\n".join(report.lines())


def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed() -> None:
    script = "from semel.sim.simulation import run_seed; print([run_seed(s).trace_sha256 for s in range(8)])"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4711")
    }
    assert len(hashes) == 1


def test_another_seed_gives_another_trace() -> None:
    assert run_seed(1).trace_sha256 != run_seed(2).trace_sha256


def test_a_fault_that_never_bit_fails_a_long_run_and_is_named() -> None:
    report = SwarmReport(seeds=1_000)
    report.faults.update({fault: 1 for fault in Fault if fault is not Fault.SECTORS_TORN})
    assert not report.is_clean
    assert report.faults_that_never_bit == [Fault.SECTORS_TORN]
    assert any("torn" in line and "NEVER BIT" in line for line in report.lines())
