"""The verdicts on batches, and the right to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.record.batch import BatchHeader
from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import LeaseWatcher, LogWatcher, ProducerWatcher
from semel.sim.server.reference import PartitionLedger
from semel.sim.world.history import History, Logs
from semel.types import LEASED_IDS_FROM, ProducerGrant, TopicPartition, is_leased


class AnswersAreDefinite(Checker, LogWatcher):
    """``answers_are_definite``: every batch gets the verdict that the whole log calls for.

    The second opinion (:mod:`semel.sim.server.reference`) knows every batch, not the last five, and does not wrap.
    Judged at every append, and for a duplicate by its offset too.
    """

    def judged(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        ledger: PartitionLedger,
        verdict: str,
        base_offset: int | None,
    ) -> None:
        expected = ledger.expected_of_marker(header) if header.is_control else ledger.expected(header)
        if verdict != expected.verdict or (verdict == "Duplicate" and base_offset != expected.base_offset):
            who = f"{header.producer_id}/{header.producer_epoch}"
            raise self.violated(
                f"{tp}: {verdict} at {base_offset} instead of {expected.verdict} at {expected.base_offset} "
                f"for sequences {header.base_sequence}..{header.last_sequence} of {who}"
            )


class FenceHolds(Checker, LeaseWatcher, ProducerWatcher, LogWatcher):
    """``fence_holds``: a fence that was acknowledged is in the log: older epochs of its producer stay shut out.

    That none of them gets in is what ``order`` and ``answers_are_definite`` see. A lease that is over is shut out as a
    whole, and needs no fence. Judged by every whole log: some batch or marker of that epoch or a higher one is there.
    """

    def __init__(self) -> None:
        self._fences: dict[tuple[TopicPartition, int], int] = {}
        self._leases_expired_below = LEASED_IDS_FROM

    def leases_over(self, expired_below: int) -> None:
        self._leases_expired_below = expired_below
        for key in [key for key in self._fences if LEASED_IDS_FROM <= key[1] < expired_below]:
            del self._fences[key]

    def fenced(self, tp: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        if is_leased(producer_id) and producer_id < self._leases_expired_below:
            return
        key = (tp, producer_id)
        self._fences[key] = max(producer_epoch, self._fences.get(key, -1))

    def described(self, tp: TopicPartition, producers: Sequence[tuple[int, int]]) -> None:
        known = dict(producers)
        for (fenced_tp, producer_id), producer_epoch in self._fences.items():
            if fenced_tp == tp and known.get(producer_id, -1) < producer_epoch:
                raise self.violated(
                    f"{tp}: producer {producer_id} was fenced to epoch {producer_epoch}, and is said to be at "
                    f"{known.get(producer_id)}"
                )

    def logs(self, history: History, logs: Logs) -> None:
        for (tp, producer_id), producer_epoch in self._fences.items():
            if tp not in logs or history.log_starts.get(tp, 0):
                continue  # the marker may be trimmed; the ledger goes on knowing it
            found = [b.header.producer_epoch for b in logs[tp] if b.header.producer_id == producer_id]
            if max(found, default=-1) < producer_epoch:
                raise self.violated(f"{tp}: producer {producer_id} was fenced to epoch {producer_epoch}")


class GrantedOnce(Checker, ProducerWatcher, LeaseWatcher):
    """``granted_once``: no right to write, a producer id with its epoch, is told to two callers, across crashes too.

    What was told of a lease is in the log that the next process reads: else it might be told once more. Judged at every
    answer; a fresh grant, with or without a lease, has an id that no answer has had before.
    """

    def __init__(self) -> None:
        self._epochs: dict[int, set[int]] = {}

    def granted(self, grant: ProducerGrant, *, is_fresh: bool) -> None:
        epochs = self._epochs.setdefault(grant.producer_id, set())
        if grant.producer_epoch in epochs or (is_fresh and epochs):
            raise self.violated(
                f"{grant.producer_id}/{grant.producer_epoch} was granted before: epochs {sorted(epochs)}"
            )
        epochs.add(grant.producer_epoch)

    def leases_found(self, epochs: Mapping[int, int]) -> None:
        for producer_id, found in epochs.items():
            told = max(self._epochs.get(producer_id, ()), default=found)
            if told > found:
                raise self.violated(f"{producer_id}/{told} was granted, and a restart finds epoch {found}")
