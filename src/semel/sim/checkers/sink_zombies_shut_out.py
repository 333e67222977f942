"""``sink_zombies_shut_out``: once a planner has begun its run, no row of an older run gets into the output.

What an older driver or attempt still sends would come behind the scan that counted its rows.
"""

from __future__ import annotations

from typing import ClassVar

from semel.core.sink.epochs import writer_epoch
from semel.core.sink.run import Ticket
from semel.record.batch import BatchHeader
from semel.sim.checkers.base import Checker
from semel.sim.server.reference import PartitionLedger
from semel.types import TopicPartition


class SinkZombiesShutOut(Checker):
    """By the producer ids that the run has found in the decision log."""

    name: ClassVar[str] = "sink_zombies_shut_out"

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, int]] = {}  # by producer id: the run, and its writer epoch

    def sink_planned(self, ticket: Ticket) -> None:
        for ids in ticket.writers.values():
            for producer_id in ids.values():
                run = (ticket.sink_epoch, writer_epoch(ticket.sink_epoch))
                self._begun[producer_id] = max(run, self._begun.get(producer_id, run))

    def judged(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        ledger: PartitionLedger,
        verdict: str,
        base_offset: int | None,
    ) -> None:
        begun = self._begun.get(header.producer_id)
        if begun is None or header.is_control or verdict != "Append":
            return
        sink_epoch, epoch = begun
        if header.producer_epoch < epoch:
            raise self.violated(
                f"{header.record_count} rows of writer epoch {header.producer_epoch} by {header.producer_id} came "
                f"into {tp} at {base_offset}, and run {sink_epoch} has begun with epoch {epoch}"
            )
