"""What a start finds, after damage on purpose too, and what a healed world comes to."""

from __future__ import annotations

from collections.abc import Sequence

from semel.core.log.recovery import Damaged
from semel.server.storage.outcome import RecoveryReport, Unopened
from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import ProducersSeen, RecoveryWatcher
from semel.sim.server.reference import PartitionLedger
from semel.sim.world.history import LoggedBatch
from semel.types import TopicPartition


class SoundDiskOpens(Checker, RecoveryWatcher):
    """``sound_disk_opens``: a disk that lost nothing but what was not synced opens again, all of it.

    A server that finds damage refuses the partition. Where nothing has rotted, it has told itself of something as
    synced that was not, or cannot read what it wrote. An error that the disk gave while it was read excuses a partition
    that is not opened, for this start; it does not excuse one that is called damaged. Judged at every start.
    """

    def opened(self, report: RecoveryReport, *, disk_failed: bool) -> None:
        excused = disk_failed and isinstance(report.verdict, Unopened)
        if isinstance(report.verdict, Damaged | Unopened) and not excused:
            raise self.violated(str(report))

    def not_opened(self, reason: str, *, disk_failed: bool) -> None:
        if not disk_failed:
            raise self.violated(reason)


class RecoveredStateEqualsReplay(Checker, RecoveryWatcher):
    """``recovered_state_equals_replay``: snapshot and tail give what a replay of the whole log gives.

    Judged after every recovery, window and offsets included.
    """

    def recovered(self, tp: TopicPartition, producers: ProducersSeen, ledger: PartitionLedger) -> None:
        replayed = ledger.remembered()
        if dict(producers) == replayed:
            return
        for producer_id in sorted(producers.keys() | replayed.keys()):
            got, expected = producers.get(producer_id), replayed.get(producer_id)
            if got != expected:
                raise self.violated(f"{tp}: producer {producer_id} is {got}, replayed it is {expected}")


class WhatIsLeftIsAPrefix(Checker, RecoveryWatcher):
    """``what_is_left_is_a_prefix``: a power cut takes a log's end, and nothing in front of what it leaves.

    This is all that holds where the page cache was trusted: acknowledged records may be gone. Judged batch by batch,
    with who wrote it: a batch of markers has no values to know it by.
    """

    def left_by_power_cut(
        self, tp: TopicPartition, was: Sequence[LoggedBatch], found: Sequence[LoggedBatch]
    ) -> None:
        for before, batch in zip(was, found, strict=False):
            if batch != before:
                raise self.violated(f"{tp}: {batch} lies where {before} was")
        if len(found) > len(was):
            raise self.violated(f"{tp}: {found[len(was)]} was never there")


class LostEndIsTold(Checker, RecoveryWatcher):
    """``lost_end_is_told``: who has read what a power cut took learns of it, though other rows stand there by now.

    By the leader epoch of the last row that was read (KIP-320): exactly up to where the log is as it was, so that who
    has lost nothing reads on. Judged by what the server says of a log that has grown beyond where it ended.
    """

    def read_before_power_cut(self, tp: TopicPartition, lost: int, told: int | None) -> None:
        if (told or 0) != lost:
            said = "nothing" if told is None else f"{told} offsets"
            raise self.violated(f"{tp} lost {lost} offsets, and tells of {said}")


class DamageIsNotCut(Checker, RecoveryWatcher):
    """``damage_is_not_cut``: no start makes a log shorter to get rid of damage in what was synced.

    It may refuse the partition; what it serves still ends where it ended. Judged at the start behind each damage.
    """

    def opened_damaged(self, tp: TopicPartition, synced_to: int, log_end_offset: int | None) -> None:
        if log_end_offset is not None and log_end_offset < synced_to:
            raise self.violated(f"{tp} ended at {synced_to}, synced, and now at {log_end_offset}")


class RotBesideCostsNothing(Checker, RecoveryWatcher):
    """``rot_beside_costs_nothing``: what rots beside the logs is survived, or said.

    Nothing is lost, misplaced or forgotten for an index, a snapshot of the producers or a metadata log that has
    changed. Judged at the start behind such rot (:mod:`semel.sim.server.rot_beside`).
    """

    def rotted_beside(self, what_is_wrong: str | None) -> None:
        if what_is_wrong is not None:
            raise self.violated(what_is_wrong)


class HealedWorldFinishes(Checker, RecoveryWatcher):
    """``healed_world_finishes``: once nothing is broken any more, all that is open ends in its time.

    Judged at the end of every wait in a world without faults.
    """

    def healed(self, waited_ms: int, what_is_open: str | None) -> None:
        if what_is_open is not None:
            raise self.violated(f"{waited_ms} ms without faults were not enough for {what_is_open}")
