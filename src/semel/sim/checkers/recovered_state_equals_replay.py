"""``recovered_state_equals_replay``: snapshot and tail give what a replay of the whole log gives."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.checkers.watchers import ProducersSeen
from semel.sim.server.reference import PartitionLedger
from semel.types import TopicPartition


class RecoveredStateEqualsReplay(Checker):
    """After every recovery, window and offsets included."""

    name: ClassVar[str] = "recovered_state_equals_replay"

    def recovered(self, tp: TopicPartition, producers: ProducersSeen, ledger: PartitionLedger) -> None:
        replayed = ledger.remembered()
        if dict(producers) == replayed:
            return
        for producer_id in sorted(producers.keys() | replayed.keys()):
            got, expected = producers.get(producer_id), replayed.get(producer_id)
            if got != expected:
                raise self.violated(f"{tp}: producer {producer_id} is {got}, replayed it is {expected}")
