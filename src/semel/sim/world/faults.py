"""The faults: their kinds, the mix that one seed draws, and the count of what bit.

A swarm of mixes finds more than one average mix: each seed switches every kind on or off, and draws the
strength of those that are on. A kind counts as having bitten only where it changed what somebody saw; a run
in which a kind never bit has not tested it and fails (``swarm``).

Every fault is an *occasion* with a number. A history can be lived again with only some of its occasions
kept: that is how a failing seed is shrunk to the few that matter (``shrink``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
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
    ONE_WAY_CUT = "network: one-way cut, frames vanish for a while"
    SECTORS_KEPT = "disk: unsynced sector kept at a power cut"
    SECTORS_LOST = "disk: unsynced sector lost at a power cut"
    SECTORS_TORN = "disk: sector torn at a power cut"
    SECTORS_ZEROED = "disk: sector zeroed at a power cut"
    TAIL_LOST = "disk: file shorter after a power cut"
    DIRECTORY_LOST = "disk: unsynced directory entry lost at a power cut"
    SYNC_FAILED = "disk: EIO on fsync, page then clean"
    FOLDER_SYNC_FAILED = "disk: EIO on fsync of a folder"
    SLOW_SYNC = "disk: slow fsync"
    DISK_FULL = "disk: full"
    SHORT_WRITE = "disk: short write"
    BIT_ROT = "disk: bit rot in what was synced"
    INDEX_ROT = "disk: bit rot in an index"
    SNAPSHOT_ROT = "disk: bit rot in a snapshot of the producers"
    METADATA_ROT = "disk: bit rot in the metadata log"
    POWER_CUT = "process: power cut"
    KILL = "process: killed, page cache survives"
    CRASH_IN_STEP = "process: power cut inside one file operation"
    CRASH_IN_RECOVERY = "process: power cut during recovery"
    KILL_IN_STEP = "process: killed inside one file operation"
    PAUSE = "process: paused beyond the request timeout"
    CLOCK_STEP = "clock: the server's steps by up to an hour"
    CLOCK_FREEZE = "clock: the server's stands still"
    CLIENT_CLOCK = "clock: a lease holder's runs at another pace"
    PRODUCER_CRASH = "client: producer crashed and resumed"
    CLIENT_PAUSE = "client: paused beyond the request timeout"
    RESUMER_CRASH = "client: producer with a saved position crashed"
    CRASH_IN_RESUME = "client: crashed while resuming"
    TWIN = "client: older copy of an identity still runs"
    IDENTITY_RESTORED = "client: older file of an identity put back"
    OTHER_INPUT = "client: resumed with another input"
    SINK_DRIVER_KILL = "sink: driver killed"
    SINK_SECOND_DRIVER = "sink: a second driver beside the first"
    SINK_ZOMBIE = "sink: what a driver started outlives it"
    SINK_TASK_FAILED = "sink: task attempt failed amid its rows"
    SINK_TASK_KILL = "sink: task attempt killed"
    SINK_TASK_LOST = "sink: task attempt given up, and goes on"
    SINK_SPECULATION = "sink: task attempt doubled"
    SINK_OTHER_ROWS = "sink: an attempt gives other rows"
    SINK_RESTORED = "sink: old checkpoint put back"
    SINK_LOST = "sink: checkpoint lost"
    SINK_FORGOTTEN = "sink: checkpoint lost amid a commit, then fewer rows at a time"
    SINK_TORN = "sink: checkpoint without its last entries"
    SINK_RECUT = "sink: ranges split otherwise"
    SINK_TRIMMED = "sink: output trimmed"
    SINK_NAME_FORGOTTEN = "sink: its name forgotten by the server"
    SINK_SOURCE_ANEW = "sink: source topic made anew"
    FLOW_STORE_LOST = "flow: a machine's folder of large state lost"
    FLOW_STORE_OLD = "flow: a machine's folder of large state put back from a copy"
    COPY_KILL = "copy: killed"
    COPY_SECOND = "copy: a second one of its job beside the first"
    COPY_PAUSE = "copy: stands still, and goes on"
    COPY_NAME_FORGOTTEN = "copy: its name forgotten by the destination"
    COPY_SOURCE_TRIMMED = "copy: source trimmed"
    COPY_SOURCE_GROWN = "copy: source grown by a partition"
    COPY_SOURCE_ANEW = "copy: source topic made anew"
    COPY_OUTPUT_ANEW = "copy: output topic made anew"
    COPY_OUTPUT_OLD = "copy: partition of an output put back from a copy"
    GROUP_MEMBER_KILL = "group: member killed"
    GROUP_MEMBER_PAUSE = "group: member stands still, and goes on"
    GROUP_TWIN = "group: a second copy of a static member beside the first"
    GROUP_EMPTIED = "group: all members stopped"
    GROUP_DELETED = "group: deleted"
    GROUP_TOPIC_GROWN = "group: its topic grown by a partition"
    GROUP_TOPIC_ANEW = "group: its topic made anew"
    TRANSACTION_CLIENT_KILL = "transaction: client killed"
    TRANSACTION_CLIENT_PAUSE = "transaction: client stands still, and goes on"
    TRANSACTION_TWIN = "transaction: a second copy of a client beside the first"
    TRANSACTION_READER_KILL = "transaction: reader killed"
    TRANSACTION_TRIMMED = "transaction: topic trimmed"


@dataclass(frozen=True, slots=True)
class Occasion:
    """One fault of one history."""

    number: int
    fault: Fault
    at_ms: int  # since the history began


@dataclass(frozen=True, slots=True)
class FaultMix:
    """The chances of one seed, each per occasion (a send, a file operation, a crash)."""

    durable: bool = True  # False: the server trusts its page cache, and the power stays on till the end
    slow_delivery: float = 0.0
    lost_frame: float = 0.0
    cut_mid_frame: float = 0.0
    half_open: float = 0.0
    reset_after_append: float = 0.0
    replay: float = 0.0
    refused: float = 0.0
    sync_failed: float = 0.0
    folder_sync_failed: float = 0.0
    slow_sync: float = 0.0
    disk_full: float = 0.0
    short_write: float = 0.0
    crash_in_step: float = 0.0
    crash_in_recovery: float = 0.0
    twin: float = 0.0
    crash_in_resume: float = 0.0
    power_cut_share: float = 0.5
    crash_interval_ms: int = 0  # mean time between crashes; 0: none
    pause_interval_ms: int = 0
    producer_crash_interval_ms: int = 0
    resumer_crash_interval_ms: int = 0
    client_pause_interval_ms: int = 0
    clock_interval_ms: int = 0
    cut_interval_ms: int = 0

    @staticmethod
    def draw(random: Random) -> FaultMix:
        """Each kind is on in about half of the seeds."""

        is_durable = random.random() < 0.8

        def chance(most: float) -> float:
            return random.random() * most if random.random() < 0.5 else 0.0

        def interval_ms(least: int, most: int) -> int:
            return random.randint(least, most) if random.random() < 0.6 else 0

        return FaultMix(
            durable=is_durable,
            slow_delivery=chance(0.05),
            lost_frame=chance(0.05),
            cut_mid_frame=chance(0.05),
            half_open=chance(0.02),
            reset_after_append=chance(0.15),
            replay=chance(0.2),
            refused=chance(0.2),
            sync_failed=chance(0.02),
            folder_sync_failed=chance(0.05),
            slow_sync=chance(0.1),
            disk_full=chance(0.02),
            short_write=chance(0.03),
            crash_in_step=chance(1.0),
            crash_in_recovery=chance(0.5),
            twin=chance(0.8),
            crash_in_resume=chance(0.5),
            power_cut_share=random.random(),
            crash_interval_ms=interval_ms(2_000, 30_000),
            pause_interval_ms=interval_ms(5_000, 40_000),
            producer_crash_interval_ms=interval_ms(5_000, 40_000),
            resumer_crash_interval_ms=interval_ms(2_000, 15_000),
            client_pause_interval_ms=interval_ms(5_000, 40_000),
            clock_interval_ms=interval_ms(5_000, 40_000),
            cut_interval_ms=interval_ms(5_000, 40_000),
        )

    def calmer(self, times: int) -> FaultMix:
        """The same kinds, so many times rarer."""
        changed: dict[str, float] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("_interval_ms"):
                changed[each.name] = value * times
            elif each.name not in OF_THE_SEED:
                changed[each.name] = value / times
        return replace(self, **changed)  # type: ignore[arg-type]


OF_THE_SEED: Final = ("durable", "power_cut_share")  # no chances
NO_FAULTS: Final = FaultMix()


class Counts:
    """How often each fault bit, each verdict was given, each event happened; and which occasions are kept."""

    def __init__(self, elapsed_ms: Callable[[], int] = lambda: 0, kept: frozenset[int] | None = None) -> None:
        self.faults: Counter[Fault] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.operations = 0  # rows sent, and answers to requests other than Produce
        self.occasions: list[Occasion] = []  # those that were kept
        self._occasions_met = 0
        self._elapsed_ms = elapsed_ms
        self._kept = kept  # None: all

    def occurs(self, fault: Fault) -> bool:
        """``fault`` is about to happen: whether it does, in this telling of the history."""
        number = self._occasions_met
        self._occasions_met += 1
        if self._kept is not None and number not in self._kept:
            return False
        self.occasions.append(Occasion(number, fault, self._elapsed_ms()))
        return True

    def bites(self, fault: Fault, random: Random, chance: float) -> bool:
        """Throw the dice, and count."""
        if chance <= 0 or random.random() >= chance or not self.occurs(fault):
            return False
        self.bit(fault)
        return True

    def bit(self, fault: Fault, times: int = 1) -> None:
        self.faults[fault] += times

    def verdict(self, name: str) -> None:
        self.verdicts[name] += 1
