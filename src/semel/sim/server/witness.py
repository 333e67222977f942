"""What the checkers see of a server: every verdict, every mark, and after each recovery the whole log.

The ledger that judges an append is kept beside the server and outlives its processes: what was trimmed is in
no file any more, and still decides whether a batch is new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from semel.core.identity import Refused
from semel.core.lease import Leases, LiveLeases
from semel.core.log.names import folder_of
from semel.core.log.watermarks import FetchIsolation
from semel.errors import CorruptRecordBatch, ErrorCode
from semel.record.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    decode_header,
    decode_records,
    validate_batch,
)
from semel.server.storage.observer import StorageObserver
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.producer_ids import ProducerIds
from semel.server.storage.reading import Reading
from semel.server.storage.storage import Storage
from semel.sim.checkers.watchers import LeaseWatcher, LogWatcher, RecoveryWatcher
from semel.sim.flows.stories import Stories
from semel.sim.flows.view import FlowView
from semel.sim.flows.watcher import FlowWatcher
from semel.sim.server.appended import Appended
from semel.sim.server.bound_witness import BoundWitness
from semel.sim.server.reference import LeasesKnown, PartitionLedger
from semel.sim.server.verdicts import UNOPENED
from semel.sim.sinks.view import SinkView
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.world.faults import Counts
from semel.sim.world.history import History, LoggedBatch, Logs, name_of
from semel.sim.world.trace import Trace
from semel.sim.world.watchers import Watchers
from semel.types import Lease, TopicPartition, is_leased
from semel.wire.frames import INT32, Buffer

DECODED_BATCHES_MAX: Final = 8_192
LENGTH_AT: Final = 8


@lru_cache(DECODED_BATCHES_MAX)
def _logged(batch: bytes) -> LoggedBatch:
    """The same bytes are read by consumers, auditors and after every recovery: they are checked and decoded once."""
    header = validate_batch(batch)
    records = [] if header.is_control else decode_records(batch)
    values, keys = tuple(map(name_of, records)), tuple(record.key for record in records)
    is_whole = header.is_control or len(records) == header.last_offset_delta + 1
    return LoggedBatch(header, values, keys, None if is_whole else tuple(record.offset for record in records))


def logged_batches(records: Buffer) -> list[LoggedBatch]:
    """The batches of a fetch answer or a segment, with their values; what is cut off at its end is not one.

    Cut by their lengths alone, for nearly all are known: whatever is not is validated, its length included.
    """
    window, position = bytes(records), 0
    batches = []
    while len(window) - position >= HEADER_BYTES:
        end = position + LOG_OVERHEAD_BYTES + INT32.unpack_from(window, position + LENGTH_AT)[0]
        if end > len(window):
            break
        batches.append(_logged(window[position:end]))
        position = end
    return batches


def whole_log(partition: Partition | Reading) -> list[LoggedBatch]:
    """Every batch from the log's start to its end, read as a consumer's answer would be."""
    batches: list[LoggedBatch] = []
    from_offset = partition.log_start_offset
    while from_offset < partition.log_end_offset:
        piece = partition.read(from_offset, 1 << 20, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice), f"{partition.name}: {piece}"
        found = logged_batches(piece.read())
        assert found, f"{partition.name}: nothing at {from_offset}, its end is {partition.log_end_offset}"
        batches += found
        from_offset = batches[-1].header.last_offset + 1
    return batches


class Beside(Protocol):
    """Who sees of a server what the witness sees, for reasons of its own."""

    def synced(self, storage: Storage, tps: Iterable[TopicPartition]) -> None:
        """What was written to these is durable."""

    def recovered(self, storage: Storage) -> None:
        """A process has opened its files, and serves nobody yet."""

    def appended(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        """These were written, or refused."""


class Witness(StorageObserver):
    """Stands beside one server for a whole history."""

    def __init__(
        self,
        tps: Sequence[TopicPartition],
        stories: Stories,
        history: History,
        watchers: Watchers,
        counts: Counts,
        trace: Trace,
        true_ms: Callable[[], int],
    ) -> None:
        self.tps: Final = tps
        self._stories = stories
        self._sink_tps: Final = stories.partitions
        self._history = history
        self._log_watcher = watchers.of(LogWatcher)
        self._lease_watcher = watchers.of(LeaseWatcher)
        self._recovery_watcher = watchers.of(RecoveryWatcher)
        self._sink_watcher = watchers.of(SinkWatcher)
        self._flow_watcher = watchers.of(FlowWatcher)
        self._counts = counts
        self._trace = trace
        self._true_ms = true_ms
        self._leases = LeasesKnown()
        self._bound = BoundWitness(watchers, counts, self._sink_tps)
        self._ledgers = {tp: PartitionLedger(self._leases) for tp in (*tps, *self._sink_tps)}
        self._trimmed: dict[TopicPartition, dict[int, LoggedBatch]] = {tp: {} for tp in self._sink_tps}
        self._appended: dict[TopicPartition, Appended] = {}
        if history.compaction is not None:
            for tp in tps:
                self._appended[tp] = Appended()
                self._log_watcher.is_compacted(tp)
        for tp in history.compacted:
            self._appended[tp] = Appended()
            self._log_watcher.is_compacted(tp)
        self.beside: list[Beside] = []

    # -- marks ------------------------------------------------------------------------------------------

    def synced(self, storage: Storage, tps: Iterable[TopicPartition]) -> None:
        """A server has synced these, and readers see what was."""
        for tp in tps:
            partition = storage.partition(tp.topic, tp.partition)
            if partition is not None and tp in self._ledgers:
                self._trace.note("server", f"{tp} synced to {partition.high_watermark}")
                self._show_marks(partition)
        for beside in self.beside:
            beside.synced(storage, tps)

    def _show_marks(self, partition: Partition) -> None:
        self._log_watcher.watermark(partition.name, partition.high_watermark, partition.log_end_offset)

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        """Somebody could see this start of the log."""
        self._log_watcher.log_start(tp, log_start_offset)
        if log_start_offset > self._history.log_starts.get(tp, 0):
            self._trace.note("server", f"{tp} starts at {log_start_offset}")
            self._history.log_starts[tp] = log_start_offset

    # -- whole logs -------------------------------------------------------------------------------------

    def recovered(self, storage: Storage, failed: Collection[Path]) -> None:
        """A process has opened its files, with errors at those that ``failed``; nobody has been served yet."""
        logs: dict[TopicPartition, list[LoggedBatch]] = {}
        if not self._history.is_rotten and not self._history.promises_end:
            self._show_leases(storage.producer_ids)
        for tp, partition in self._partitions(storage):
            self._trace.note("server", str(partition.recovery))
            if self._history.is_rotten:
                continue
            folder = storage.data_dir / folder_of(tp)
            disk_failed = any(path.is_relative_to(folder) for path in failed)
            self._recovery_watcher.opened(partition.recovery, disk_failed=disk_failed)
            if not partition.is_online:  # nothing is known of its log, and nobody is told anything of it
                self._counts.verdict(UNOPENED)
                continue
            logs[tp] = batches = self.found_in(partition)
            headers = [batch.header for batch in batches]
            ledger = self._ledgers[tp].recovered(headers, partition.log_end_offset)
            self._ledgers[tp] = ledger
            producers = {
                producer_id: (
                    entry.producer_epoch,
                    entry.last_sequence,
                    tuple((span.base_sequence, span.base_offset) for span in entry.window),
                )
                for producer_id, entry in partition.producers()
                if self._leases.verdict(producer_id) is None
            }
            self._recovery_watcher.recovered(tp, producers, ledger)
            self.log_start(tp, partition.log_start_offset)
            if not self._history.promises_end:
                self._show_marks(partition)
        if not self._history.promises_end:
            self._judge(logs)
            if not self._history.is_rotten:
                self._bound.came_up(storage)
                for beside in self.beside:
                    beside.recovered(storage)

    def not_recovered(self, reason: str, *, disk_failed: bool) -> None:
        """A process could not open its files."""
        self._trace.note("server", f"does not start: {reason}")
        if not self._history.is_rotten:
            self._recovery_watcher.not_opened(reason, disk_failed=disk_failed)

    def show_logs(self, storage: Storage) -> Logs:
        """All logs as they lie there now; a trim that goes on may have raised a start already."""
        logs = {}
        for tp, partition in self._partitions(storage):
            self.log_start(tp, partition.log_start_offset)
            logs[tp] = self._read_sound(partition)
            if tp in storage.cleaner.left_alone:
                self._recovery_watcher.not_opened(f"{tp} was compacted no further", disk_failed=False)
        self._judge(logs)
        return logs

    def found_in(self, partition: Partition) -> list[LoggedBatch]:
        """The whole log of a partition that was opened just now."""
        return self._read_sound(partition, is_recovered=True)

    def _read_sound(self, partition: Partition, *, is_recovered: bool = False) -> list[LoggedBatch]:
        try:
            found = whole_log(partition)
        except CorruptRecordBatch as error:
            self._recovery_watcher.not_opened(f"{partition.name}: {error}", disk_failed=False)
            raise
        appended = self._appended.get(partition.name)
        if appended is None:
            return found
        if is_recovered:
            appended.recovered(found, partition.log_end_offset)
        return self._uncompacted(partition.name, appended.since(partition.log_start_offset), found)

    def _uncompacted(
        self, tp: TopicPartition, appended: list[LoggedBatch], found: Sequence[LoggedBatch]
    ) -> list[LoggedBatch]:
        """What was written, once what is left of it has been judged: so every other checker sees a whole log."""
        self._log_watcher.compacted(self._history, tp, appended, found)
        written, left = (
            {offset: value for batch in log for offset, value in batch.placed} for log in (appended, found)
        )
        of_sinks = tp in self._history.compacted
        gone = [value for offset, value in written.items() if offset not in left]
        if gone:
            self._counts.verdict("sink log: records gone" if of_sinks else "compaction: records gone")
        if any(map(self._history.tombstones_of(tp).is_tombstone, gone)):
            self._counts.verdict("sink log: tombstones gone" if of_sinks else "compaction: tombstones gone")
        return appended

    def _judge(self, logs: Logs) -> None:
        of_sinks = {tp: logs[tp] for tp in self._sink_tps if tp in logs}
        views = [SinkView(story, of_sinks, self._trimmed) for story in self._stories.sinks]
        flows = [FlowView(story, of_sinks, self._trimmed) for story in self._stories.flows]
        flows = [view for view in flows if view.is_whole]
        of_clients = {tp: logs[tp] for tp in self.tps if tp in logs}
        self._log_watcher.logs(self._history, of_clients)
        if views:
            self._sink_watcher.sink_logs(views)
        if flows:
            self._flow_watcher.flow_logs(flows)

    def _partitions(self, storage: Storage) -> Iterable[tuple[TopicPartition, Partition]]:
        for tp in (*self.tps, *self._sink_tps):
            partition = storage.partition(tp.topic, tp.partition)
            if partition is None:
                self._recovery_watcher.not_opened(f"{tp} is gone", disk_failed=False)
                continue
            yield tp, partition

    # -- trims ------------------------------------------------------------------------------------------

    def trims(self, reading: Reading, before_offset: int) -> None:
        """What a trim of a sink's output may take; whether it does is seen by where the log begins then."""
        trimmed = self._trimmed.get(reading.name)
        if trimmed is not None:
            for batch in whole_log(reading):
                if batch.header.base_offset < before_offset:
                    trimmed[batch.header.base_offset] = batch

    def log_start_raised(self, name: TopicPartition, log_start_offset: int) -> None:
        if name in self._ledgers:
            self.log_start(name, log_start_offset)

    def trimmed(self, name: TopicPartition, code: ErrorCode) -> None:
        if name in self._ledgers:
            self._counts.verdict(f"trim: {code.name}")

    def retention_applied(self, name: TopicPartition, removed: int) -> None:
        if removed and name in self._ledgers:
            self._counts.verdict("retention: segments removed")

    # -- verdicts ---------------------------------------------------------------------------------------

    def judged(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        for beside in self.beside:
            beside.appended(name, incoming, outcomes)
        if name in self._ledgers:
            for one, outcome in zip(incoming, outcomes, strict=True):
                self._judged(name, decode_header(one.batches), outcome)
                self._remember(name, one, outcome)
            self._bound.judged(
                name, ((one.headers[0], outcome) for one, outcome in zip(incoming, outcomes, strict=True))
            )

    def _judged(self, tp: TopicPartition, header: BatchHeader, outcome: AppendOutcome) -> None:
        if outcome.verdict is None:
            self._counts.verdict(f"append: {outcome.error_code.name}")
            self._trace.note("server", f"{tp} {outcome.error_code.name}: {outcome.error_message}")
            return
        verdict, ledger = type(outcome.verdict).__name__, self._ledgers[tp]
        self._counts.verdict(f"{'marker' if header.is_control else 'append'}: {verdict}")
        sequences = (
            f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}+{header.record_count}"
        )
        self._trace.note("server", f"{tp} {sequences} {verdict} at {outcome.base_offset}")
        known_offset = outcome.base_offset if outcome.base_offset >= 0 else None
        self._log_watcher.judged(tp, header, ledger, verdict, known_offset)
        if verdict == "Append":
            ledger.appended(header, outcome.base_offset)
            if is_leased(header.producer_id):
                self._lease_watcher.lease_used(header.producer_id)

    def _remember(self, tp: TopicPartition, incoming: Incoming, outcome: AppendOutcome) -> None:
        appended = self._appended.get(tp)
        if appended is not None and type(outcome.verdict).__name__ == "Append":
            batch = _logged(bytes(incoming.batches))
            appended.add(replace(batch, header=batch.header._replace(base_offset=outcome.base_offset)))

    # -- leases -----------------------------------------------------------------------------------------

    def _show_leases(self, ids: ProducerIds) -> None:
        """A process has come up with these."""
        epochs = {lease.producer_id: lease.producer_epoch for lease in ids.leases}
        self._lease_watcher.leases_found(epochs)
        self._lease_watcher.lives_begin_anew(ids.leases.granted_below, self._true_ms())
        self._bound.restarted(ids.leases.granted_below, epochs)
        self.leases_over(ids.live_leases.expired_below)

    def lease_asked(
        self, producer_id: int, named: Sequence[TopicPartition], response: Lease | Refused, issued_below: int
    ) -> None:
        if isinstance(response, Lease) and response.producer_id >= issued_below:
            self._lease_watcher.lease_issued(response.producer_id, self._true_ms())
        self._bound.asked(producer_id, named, response, issued_below)

    def leases_looked_at(self, leases: Leases, live: LiveLeases) -> None:
        true_ms = self._true_ms()
        if live.expired_below < leases.expired_below:
            self._trace.note("server", f"leases below {leases.expired_below} are over")
        could_log = not leases.decide_expiry(true_ms).records
        if leases.length_ms is not None and could_log:
            self._lease_watcher.leases_looked_at(leases.expired_below, leases.length_ms, true_ms)

    def leases_over(self, expired_below: int) -> None:
        self._lease_watcher.leases_over(expired_below)
        self._bound.over(expired_below)
        self._leases.expired_below = max(self._leases.expired_below, expired_below)

    def lease_told_of(self, producer_id: int, remaining_ms: int) -> None:
        self._lease_watcher.lease_told_of(producer_id, remaining_ms)
