"""What every checker may watch; each overrides what its invariant needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from semel.record.batch import BatchHeader
from semel.server.storage.outcome import RecoveryReport
from semel.sim.history import History, LoggedBatch, Logs, Violation
from semel.sim.reference import PartitionLedger
from semel.types import TopicPartition

ProducersSeen = Mapping[int, tuple[int, int, tuple[tuple[int, int], ...]]]


class Checker:
    """Watches one history for one invariant."""

    name: ClassVar[str] = ""

    def judged(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        ledger: PartitionLedger,
        verdict: str,
        base_offset: int | None,
    ) -> None:
        """The server decided about a batch; ``ledger`` does not have it yet."""

    def read(self, tp: TopicPartition, batches: Sequence[LoggedBatch], high_watermark: int) -> None:
        """A consumer was answered."""

    def watermark(self, tp: TopicPartition, high_watermark: int, log_end_offset: int) -> None:
        """A server's marks, at a moment when somebody could see them."""

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        """A log's start, as somebody could see it."""

    def described(self, tp: TopicPartition, producers: Sequence[tuple[int, int]]) -> None:
        """DescribeProducers was answered: the ids with their epochs."""

    def fenced(self, tp: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        """A fence was acknowledged."""

    def opened(self, report: RecoveryReport, *, disk_failed: bool) -> None:
        """A server has opened, or not, a partition of a disk on which nothing has rotted.

        ``disk_failed``: the disk gave an error for one of the partition's files.
        """

    def not_opened(self, reason: str, *, disk_failed: bool) -> None:
        """A server could not open such a disk; ``disk_failed``: which gave it an error."""

    def recovered(self, tp: TopicPartition, producers: ProducersSeen, ledger: PartitionLedger) -> None:
        """A server came up with ``producers``; ``ledger`` was made from all that is or was in its log."""

    def logs(self, history: History, logs: Logs) -> None:
        """All logs as they lie there now: after each recovery, and at the end."""

    def violated(self, evidence: str) -> Violation:
        return Violation(self.name, evidence)
