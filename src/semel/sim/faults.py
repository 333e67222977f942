"""The faults: their kinds, the mix that one seed draws, and the count of what bit.

A swarm of mixes finds more than one average mix: each seed switches every kind on or off, and draws the
strength of those that are on. A kind counts as having bitten only where it changed what somebody saw; a run
in which a kind never bit has not tested it and fails (``swarm``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """Every kind of fault; the value is the name in reports."""

    SLOW_DELIVERY = "network: delivery beyond the request timeout"
    LOST_FRAME = "network: frame lost with its connection"
    CUT_MID_FRAME = "network: cut in mid-frame"
    HALF_OPEN = "network: half-open, one side waits for nobody"
    RESET_AFTER_APPEND = "network: answer lost, request executed"
    REPLAY = "network: old request delivered again"
    REFUSED = "network: connection refused"
    SECTORS_KEPT = "disk: unsynced sector kept at a power cut"
    SECTORS_LOST = "disk: unsynced sector lost at a power cut"
    SECTORS_TORN = "disk: sector torn at a power cut"
    SECTORS_ZEROED = "disk: sector zeroed at a power cut"
    TAIL_LOST = "disk: file shorter after a power cut"
    DIRECTORY_LOST = "disk: unsynced directory entry lost at a power cut"
    SYNC_FAILED = "disk: EIO on fsync, page then clean"
    SLOW_SYNC = "disk: slow fsync"
    DISK_FULL = "disk: full"
    SHORT_WRITE = "disk: short write"
    POWER_CUT = "process: power cut"
    KILL = "process: killed, page cache survives"
    CRASH_IN_STEP = "process: power cut inside one file operation"
    CRASH_IN_RECOVERY = "process: power cut during recovery"
    PAUSE = "process: paused beyond the request timeout"
    PRODUCER_CRASH = "client: producer crashed and resumed"


@dataclass(frozen=True, slots=True)
class FaultMix:
    """The chances of one seed, each per occasion (a send, a file operation, a crash)."""

    slow_delivery: float = 0.0
    lost_frame: float = 0.0
    cut_mid_frame: float = 0.0
    half_open: float = 0.0
    reset_after_append: float = 0.0
    replay: float = 0.0
    refused: float = 0.0
    sync_failed: float = 0.0
    slow_sync: float = 0.0
    disk_full: float = 0.0
    short_write: float = 0.0
    crash_in_step: float = 0.0
    crash_in_recovery: float = 0.0
    power_cut_share: float = 0.5
    crash_interval_ms: int = 0  # mean time between crashes; 0: none
    pause_interval_ms: int = 0
    producer_crash_interval_ms: int = 0

    @staticmethod
    def draw(random: Random) -> FaultMix:
        """Each kind is on in about half of the seeds."""

        def chance(most: float) -> float:
            return random.random() * most if random.random() < 0.5 else 0.0

        def interval_ms(least: int, most: int) -> int:
            return random.randint(least, most) if random.random() < 0.6 else 0

        return FaultMix(
            slow_delivery=chance(0.05),
            lost_frame=chance(0.05),
            cut_mid_frame=chance(0.05),
            half_open=chance(0.02),
            reset_after_append=chance(0.15),
            replay=chance(0.2),
            refused=chance(0.2),
            sync_failed=chance(0.02),
            slow_sync=chance(0.1),
            disk_full=chance(0.01),
            short_write=chance(0.03),
            crash_in_step=chance(1.0),
            crash_in_recovery=chance(0.5),
            power_cut_share=random.random(),
            crash_interval_ms=interval_ms(2_000, 30_000),
            pause_interval_ms=interval_ms(5_000, 40_000),
            producer_crash_interval_ms=interval_ms(5_000, 40_000),
        )


NO_FAULTS: Final = FaultMix()


class Counts:
    """How often each fault bit, and how often each verdict was given."""

    def __init__(self) -> None:
        self.faults: Counter[Fault] = Counter()
        self.verdicts: Counter[str] = Counter()

    def bit(self, fault: Fault, times: int = 1) -> None:
        self.faults[fault] += times

    def verdict(self, name: str) -> None:
        self.verdicts[name] += 1
