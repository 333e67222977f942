"""``fence_holds``: a fence that was acknowledged is in the log: older epochs of its producer stay shut out.

That none of them gets in is what ``order`` and ``answers_are_definite`` see. A lease that is over is shut out as a
whole, and needs no fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, Logs
from semel.types import LEASED_IDS_FROM, TopicPartition, is_leased


class FenceHolds(Checker):
    """At every whole log: some batch or marker of that epoch or a higher one is there."""

    name: ClassVar[str] = "fence_holds"

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
