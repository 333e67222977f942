"""What may be watched of the server's logs and of its clients, by subject; no hook does anything by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.core.client.events import Effects, Event
from semel.record.batch import BatchHeader
from semel.server.storage.outcome import RecoveryReport
from semel.sim.server.reference import PartitionLedger
from semel.sim.world.history import History, LoggedBatch, Logs
from semel.types import ProducerGrant, TopicPartition

ProducersSeen = Mapping[int, tuple[int, int, tuple[tuple[int, int], ...]]]


class LogWatcher:
    """What comes into the logs, what is read there, and what lies there."""

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

    def logs(self, history: History, logs: Logs) -> None:
        """All logs as they lie there now: after each recovery, and at the end. Of a compacted one what was written."""

    def is_compacted(self, tp: TopicPartition) -> None:
        """Records of this log may be missing, from the beginning on."""

    def compacted(
        self,
        history: History,
        tp: TopicPartition,
        appended: Sequence[LoggedBatch],
        found: Sequence[LoggedBatch],
    ) -> None:
        """A compacted log from its start on: what was written, and what is left of it."""


class ProducerWatcher:
    """What producers, and those who fence them, are told and do."""

    def granted(self, grant: ProducerGrant, *, is_fresh: bool) -> None:
        """A client was told that it may write so; ``is_fresh``: it had not asked for this id."""

    def fenced(self, tp: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        """A fence was acknowledged."""

    def described(self, tp: TopicPartition, producers: Sequence[tuple[int, int]]) -> None:
        """DescribeProducers was answered: the ids with their epochs."""

    def lease_holder_handled(
        self, event: Event, effects: Effects, now_ms: int, delivery_timeout_ms: int
    ) -> None:
        """A producer that writes under leases took ``event`` in, at this time of its own clock."""


class LeaseWatcher:
    """The life of leases."""

    def lease_issued(self, producer_id: int, now_ms: int) -> None:
        """The server issued a lease, at this true time; nobody was told yet."""

    def leases_found(self, epochs: Mapping[int, int]) -> None:
        """A process has come up, and by its log these leases live, each at that epoch."""

    def lives_begin_anew(self, granted_below: int, now_ms: int) -> None:
        """A server came up, and knows of the leases below."""

    def leases_looked_at(self, expired_below: int, length_ms: int, now_ms: int) -> None:
        """The server has just looked which leases are over, and logged those below."""

    def lease_told_of(self, producer_id: int, remaining_ms: int) -> None:
        """The server said how much of a lease's life is left."""

    def leases_over(self, expired_below: int) -> None:
        """From now on the partitions take all leases below for over."""

    def lease_used(self, producer_id: int) -> None:
        """A batch of a leased id was appended."""


class RoomWatcher:
    """For how many producers of partitions a server has room."""

    def remembered(self, known: int, kept: int, known_max: int, *, is_start: bool) -> None:
        """So many of them it knows now, and keeps room for so many more of leases."""

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        """A first batch was refused; the lease it came under has room ``kept``, and others find ``free``."""

    def lease_refused_for_room(self, room: int, free: int) -> None:
        """A lease of so many partitions was refused."""


class GroupWatcher:
    """What groups are told."""

    def committed_is(
        self, tp: TopicPartition, known: int, sent: Sequence[int], *, was_acknowledged: bool
    ) -> None:
        """A group was told its committed offset; it had ``sent`` these, and knows of one whether it was taken."""


class RecoveryWatcher:
    """What is found at a start, after damage on purpose too, and what a world without faults comes to."""

    def opened(self, report: RecoveryReport, *, disk_failed: bool) -> None:
        """A server has opened, or not, a partition of a disk on which nothing has rotted.

        ``disk_failed``: the disk gave an error for one of the partition's files.
        """

    def not_opened(self, reason: str, *, disk_failed: bool) -> None:
        """A server could not open such a disk; ``disk_failed``: which gave it an error."""

    def recovered(self, tp: TopicPartition, producers: ProducersSeen, ledger: PartitionLedger) -> None:
        """A server came up with ``producers``; ``ledger`` was made from all that is or was in its log."""

    def left_by_power_cut(
        self, tp: TopicPartition, was: Sequence[LoggedBatch], found: Sequence[LoggedBatch]
    ) -> None:
        """Power was cut where the page cache was trusted: a whole log, before and after."""

    def read_before_power_cut(self, tp: TopicPartition, lost: int, told: int | None) -> None:
        """Somebody had read all of a log before that power cut, of which ``lost`` offsets are gone.

        ``told``: of how many the server says so by its leader epochs, once the log has grown beyond; ``None``: of none.
        """

    def opened_damaged(self, tp: TopicPartition, synced_to: int, log_end_offset: int | None) -> None:
        """A server came up with a partition of which synced bytes have changed; no end: it is refused."""

    def rotted_beside(self, what_is_wrong: str | None) -> None:
        """A server came up with files beside its logs changed; ``None``: it has all, or said what it has not."""

    def healed(self, waited_ms: int, what_is_open: str | None) -> None:
        """A world without faults has had its time; ``None``: nothing is open."""
