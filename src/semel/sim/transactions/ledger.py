"""Reads what a server writes of transactions: the states of the coordinator, the rows and the markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from semel.core.log.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from semel.core.log.watermarks import FetchIsolation
from semel.core.producer_state.verdict import Append
from semel.core.transaction.records import decode_key, decode_value
from semel.core.transaction.states import TransactionState
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader, Buffer, decode_records, scan_batches
from semel.record.control import decode_marker
from semel.record.records import Record
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.sim.transactions.log import Decided, PartitionLog
from semel.sim.transactions.story import TransactionStory
from semel.sim.transactions.watcher import TransactionLogWatcher
from semel.sim.world.watchers import Watchers
from semel.types import ProducerGrant, TopicPartition

STATES: Final = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
OFFSETS: Final = TopicPartition(GROUP_OFFSETS_TOPIC, 0)
_READ_BYTES: Final = 1 << 20


class TransactionLedger:
    """Beside the witness of the server."""

    def __init__(
        self,
        story: TransactionStory,
        watchers: Watchers,
        now_ms: Callable[[], int],
        lost_ms: Callable[[], int],
    ) -> None:
        """``lost_ms``: when the server last may have lost what was not durable; -1: never."""
        self.is_on = True  # False: what comes now is damage on purpose
        self._story = story
        self._log = story.log
        self._watcher = watchers.of(TransactionLogWatcher)
        self._now_ms = now_ms
        self._lost_ms = lost_ms
        self._written: Final = {*story.tps, OFFSETS}

    def appended(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        """Written, or refused; not durable yet."""
        if not self.is_on or (name != STATES and name not in self._written):
            return
        for one, outcome in zip(incoming, outcomes, strict=True):
            if outcome.error_code is ErrorCode.NONE and isinstance(outcome.verdict, Append):
                offset = outcome.base_offset
                for header in one.headers:
                    if name == STATES:
                        self._states_come(offset, decode_records(one.batches), is_new=True)
                    else:
                        of_partition = self._log.of(name)
                        self._batch_comes(name, of_partition, offset, header, one.batches, is_new=True)
                    offset += header.last_offset_delta + 1

    def synced(self, storage: Storage, tps: Iterable[TopicPartition]) -> None:
        """What was written to these is durable."""
        if not self.is_on:
            return
        for tp in tps:
            partition = storage.partition(tp.topic, tp.partition)
            if partition is not None and tp == STATES:
                self._log.durable_end = partition.high_watermark
            elif partition is not None and tp in self._written:
                self._log.of(tp).synced(partition.high_watermark)

    def recovered(self, storage: Storage) -> None:
        """A process has opened its files, and serves nobody yet."""
        if not self.is_on:
            return
        for tp in sorted(self._written):
            partition = storage.partition(tp.topic, tp.partition)
            if partition is not None and partition.is_online:
                self._read(partition)
        states = storage.transaction_log.partition
        self._log.begin_anew(states.log_end_offset)
        for _, batch, _ in _batches(states):
            records = decode_records(batch)
            self._states_come(records[0].offset, records, is_new=False)
        self._log.durable_end = states.high_watermark

    def _read(self, partition: Partition) -> None:
        name, before = partition.name, self._log.of(partition.name)
        self._watcher.found_at_start(self._story, name, before.durable_end, partition.log_end_offset)
        found = self._log.partitions[name] = PartitionLog()
        start_offset = partition.log_start_offset
        for one in (*before.is_ending, *before.is_open.values()):
            is_ended = one.marker_offset is not None and one.marker_offset < start_offset
            if one.first_offset < start_offset and not is_ended:  # the file may not say so any more
                found.is_open[one.producer_id] = one
                one.marker_offset = None
        for offset, batch, header in _batches(partition):
            self._batch_comes(name, found, offset, header, batch, is_new=False)
        found.synced(partition.high_watermark)

    def _batch_comes(
        self,
        name: TopicPartition,
        log: PartitionLog,
        offset: int,
        header: BatchHeader,
        batch: Buffer,
        *,
        is_new: bool,
    ) -> None:
        if not header.is_transactional:
            return
        if not header.is_control:
            log.wrote(header.producer_id, header.producer_epoch, offset)
            return
        marker = decode_marker(batch)
        if marker is None:
            return
        if is_new:
            self._watcher.marker_written(self._story, name, marker)
        log.marked(header.producer_id, offset)

    def _states_come(self, first_place: int, records: Iterable[Record], *, is_new: bool) -> None:
        """``is_new``: it is judged, before it counts."""
        log, story = self._log, self._story
        for place, record in enumerate(records, first_place):
            name = None if record.key is None else decode_key(record.key)
            if name is None or story.plan_of(name) is None or record.value is None:
                continue
            before, after = log.states.get(name), decode_value(name, record.value)
            holder = None if before is None else ProducerGrant(before.producer_id, before.producer_epoch)
            txn = None if holder is None else story.newest_under(holder)
            if is_new:
                story.lost_ms = max(story.lost_ms, self._lost_ms())
                self._watcher.state_written(story, before, after, txn, self._now_ms())
            if is_new and after.state.is_prepared and txn is not None:  # what is found was new before
                is_commit = after.state is TransactionState.PREPARE_COMMIT
                log.decided.setdefault(txn.name, Decided(is_commit, place))
            log.states[name], log.places[name] = after, place


def _batches(partition: Partition) -> Iterator[tuple[int, bytes, BatchHeader]]:
    """Every batch, with the offset of its first record that is there."""
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        piece = partition.read(offset, _READ_BYTES, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice), f"{partition.name}: {piece}"
        for batch, header in scan_batches(piece.read_whole()):
            yield max(offset, header.base_offset), bytes(batch), header
            offset = header.last_offset + 1
