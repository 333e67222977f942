"""What every checker may watch; each overrides what its invariant needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from semel.core.client.events import Effects, Event
from semel.core.sink.run import Ticket
from semel.errors import SemelError
from semel.record.batch import BatchHeader
from semel.server.storage.outcome import RecoveryReport
from semel.sim.server.reference import PartitionLedger
from semel.sim.world.history import History, LoggedBatch, Logs, Violation
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.copies.life import CopyLife
    from semel.sim.copies.story import CopyStory
    from semel.sim.copies.view import CopyView
    from semel.sim.flows.driver import StageDriver
    from semel.sim.flows.story import StageStory
    from semel.sim.flows.view import FlowView
    from semel.sim.sinks.driver import SimulatedDriver
    from semel.sim.sinks.story import SinkStory
    from semel.sim.sinks.view import SinkView

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

    def granted(self, producer_id: int, producer_epoch: int, *, is_fresh: bool) -> None:
        """A client was told that it may write so; ``is_fresh``: it had not asked for this id."""

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

    def remembered(self, known: int, kept: int, known_max: int, *, is_start: bool) -> None:
        """So many producers of partitions the server knows now, and keeps room for so many more of leases."""

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        """A first batch was refused; the lease it came under has room ``kept``, and others find ``free``."""

    def lease_refused_for_room(self, room: int, free: int) -> None:
        """A lease of so many partitions was refused."""

    def lease_holder_handled(
        self, event: Event, effects: Effects, now_ms: int, delivery_timeout_ms: int
    ) -> None:
        """A producer that writes under leases took ``event`` in, at this time of its own clock."""

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

    def committed_is(
        self, tp: TopicPartition, known: int, sent: Sequence[int], *, was_acknowledged: bool
    ) -> None:
        """A group was told its committed offset; it had ``sent`` these, and knows of one whether it was taken."""

    def healed(self, waited_ms: int, what_is_open: str | None) -> None:
        """A world without faults has had its time; ``None``: nothing is open."""

    # -- what a coda damages ----------------------------------------------------------------------------

    def left_by_power_cut(
        self, tp: TopicPartition, was: Sequence[LoggedBatch], found: Sequence[LoggedBatch]
    ) -> None:
        """Power was cut where the page cache was trusted: a whole log, before and after."""

    def opened_damaged(self, tp: TopicPartition, synced_to: int, log_end_offset: int | None) -> None:
        """A server came up with a partition of which synced bytes have changed; no end: it is refused."""

    def rotted_beside(self, what_is_wrong: str | None) -> None:
        """A server came up with files beside its logs changed; ``None``: it has all, or said what it has not."""

    # -- sinks ------------------------------------------------------------------------------------------

    def sink_planned(self, ticket: Ticket) -> None:
        """A planner has fenced, scanned and begun, or its run goes on."""

    def sink_commits(self, ticket: Ticket, batch_id: int) -> None:
        """The tasks of a micro-batch have reported, and its commit begins."""

    def sink_stopped(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        """A driver has ended with an error."""

    def sink_left(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        """No restart and no way out has helped: the sink has stopped for good."""

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        """What lies in the sinks' outputs and in the decision log, whenever all logs are judged."""

    # -- flows ------------------------------------------------------------------------------------------

    def flow_stopped(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        """A driver of a stage has ended with an error."""

    def flow_left(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        """Neither mended steps nor those of before have helped: the stage has stopped for good."""

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        """What lies in the topics of flows, whenever all logs are judged and all of a flow's can be read."""

    # -- copies -----------------------------------------------------------------------------------------

    def copy_stopped(self, story: CopyStory, life: CopyLife, error: SemelError) -> None:
        """A copy has ended with an error."""

    def copy_looked(self, view: CopyView) -> None:
        """The destination has something new to read, or has come up."""

    def copy_ended(self, view: CopyView) -> None:
        """A world without faults has had its time."""

    def violated(self, evidence: str) -> Violation:
        return Violation(self.name, evidence)


def who_watch(checkers: Iterable[Checker], what: Callable[..., Any]) -> list[Checker]:
    """The checkers that override ``what``, a method of :class:`Checker`: for what happens thousands of times."""
    return [checker for checker in checkers if getattr(type(checker), what.__name__) is not what]
