"""A log-backed core's log: its records as batches in an internal partition.

Invariants:
- What :meth:`StateLog.submit` applied is in the log; it is answered only once that is durable.
- It is read whole or not at all: damage in it is a ``StorageError``, for no state can be made of a part.
- The log stays small: when it has grown past a bound, the live records are written once more at its end,
  synced, and everything before them is deleted: it can add nothing, as the newest record of a key counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from semel.core.decision import Decision, LogBacked, StateRecord, Transactional
from semel.core.log.names import LOG_SUFFIX, file_name
from semel.core.log.watermarks import FetchIsolation
from semel.errors import CorruptRecordBatch, ErrorCode, StorageError
from semel.record.batch import (
    BatchHeader,
    Buffer,
    Record,
    decode_records,
    encode_batch,
    scan_batches,
)
from semel.record.control import MarkerType, decode_marker
from semel.server.storage.aside import aside
from semel.server.storage.outcome import Slice, from_coordinator
from semel.server.storage.partition import Partition
from semel.server.storage.segment import DamagedLog
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant

_READ_BYTES: Final = 1 << 20
_RECORDS_PER_BATCH: Final = 1000
_BATCH_BYTES: Final = 256 << 10  # well below the partition's max.message.bytes, whatever the last record is
COMPACT_BYTES_MIN: Final = 4 << 20

ResponseT = TypeVar("ResponseT")


class Submitted(NamedTuple, Generic[ResponseT]):
    """A decision that is written and applied; answer once the high watermark reaches ``sync_offset``."""

    response: ResponseT
    sync_offset: int
    error_message: str | None


class StateLog:
    """One internal partition with the cores whose records it holds."""

    def __init__(
        self,
        partition: Partition,
        states: Sequence[LogBacked],
        transactional: Transactional | None = None,
        *,
        newest_only: bool = False,
    ) -> None:
        """Read the whole partition into ``states``; what is in transactions into ``transactional``.

        With ``newest_only`` of each key only the newest record is applied: compaction leaves no more.
        """
        self.partition = partition
        self._states = states
        self._transactional = transactional
        self._compact_above_bytes = COMPACT_BYTES_MIN
        self._newest: dict[bytes, StateRecord] | None = {} if newest_only else None
        if not partition.is_online:
            raise StorageError(f"{partition.offline_reason}; nothing can be served without it")
        offset = partition.log_start_offset
        try:
            while offset < partition.log_end_offset:
                offset = self._read_from(offset)
        except DamagedLog as damage:
            raise StorageError(
                f"{partition.name}: damaged at offset {damage.offset}: {damage}; nothing can be served without it"
            ) from damage
        newest, self._newest = self._newest, None
        for record in (newest or {}).values():
            self._apply(record)

    def _read_from(self, offset: int) -> int:
        """Apply a piece of the log, the batch that holds ``offset`` first; the offset behind it."""
        partition = self.partition
        log_name = file_name(max(b for b in partition.segment_base_offsets if b <= offset), LOG_SUFFIX)
        piece = partition.read(offset, _READ_BYTES, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice)
        position, end = piece.position, piece.position + piece.length
        try:
            for batch, header in scan_batches(piece.read_whole()):
                if not header.base_offset <= offset <= header.last_offset:
                    raise CorruptRecordBatch(f"offset {header.base_offset} where {offset} is due")
                if header.is_control:
                    self._end_transaction(batch)
                else:
                    for record in decode_records(batch):
                        if record.offset >= offset and record.key is not None:
                            self._apply_read(header, StateRecord(record.key, record.value))
                offset = header.last_offset + 1
                position += header.size_bytes
        except CorruptRecordBatch as error:
            raise DamagedLog(log_name, position, offset, str(error)) from error
        assert position == end > piece.position, "a piece is of whole batches, and of one at least"
        return offset

    def submit(self, decision: Decision[ResponseT], now_ms: int) -> Submitted[ResponseT]:
        """Write a decision's records and apply them. Answer when the partition's watermark is high enough."""
        error = self._append(decision.records, now_ms) if decision.records else None
        if error is not None:
            return Submitted(decision.response, 0, error)
        for record in decision.records:
            self._apply(record)
        # A decision without records also waits: it may rest on one that is not durable yet.
        return Submitted(decision.response, self.partition.log_end_offset, None)

    def submit_pending(
        self, decision: Decision[ResponseT], grant: ProducerGrant, now_ms: int
    ) -> Submitted[ResponseT]:
        """Write a decision's records in the producer's transaction: they count once that is committed."""
        error = self._append(decision.records, now_ms, grant) if decision.records else None
        if error is not None:
            return Submitted(decision.response, 0, error)
        for record in decision.records:
            self._apply_pending(grant.producer_id, record)
        return Submitted(decision.response, self.partition.log_end_offset, None)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker of the producer was appended."""
        if self._transactional is not None:
            self._transactional.end_pending(producer_id, is_commit=is_commit)

    async def submit_durably(self, decision: Decision[ResponseT], now_ms: int) -> ResponseT:
        """Write a decision's records, sync, and only then apply them; ``StorageError`` when that fails.

        What else is submitted meanwhile is applied before; it may not be about the same keys.
        """
        error = self._append(decision.records, now_ms)
        if error is None and self.partition.needs_sync:
            await aside(self.partition.sync)
        if error is not None or not self.partition.is_online:
            raise StorageError(error or str(self.partition.offline_reason))
        for record in decision.records:
            self._apply(record)
        return decision.response

    async def compact_if_large(self, now_ms: int) -> bool:
        """Write the live records anew and drop the rest if the log has grown large; whether it was done."""
        partition = self.partition
        if partition.size_bytes < self._compact_above_bytes or not partition.is_online:
            return False
        live = [record for state in self._states for record in state.live_records()]
        try:
            partition.roll(now_ms)
        except OSError:
            return False
        first_offset = partition.log_end_offset
        if self._append(live, now_ms) is not None:
            return False
        await aside(partition.sync)
        done = await partition.delete_records(first_offset) is ErrorCode.NONE
        self._compact_above_bytes = max(COMPACT_BYTES_MIN, 2 * partition.size_bytes)
        return done

    def _append(
        self, records: Sequence[StateRecord], now_ms: int, grant: ProducerGrant | None = None
    ) -> str | None:
        of_producer = grant or ProducerGrant(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        for some in _in_batches(records):
            batch = encode_batch(
                [Record(n, now_ms, one.key, one.value) for n, one in enumerate(some)],
                producer_id=of_producer.producer_id,
                producer_epoch=of_producer.producer_epoch,
                transactional=grant is not None,
            )
            (outcome,) = self.partition.append_all([from_coordinator(batch)], now_ms)
            if outcome.error_code is not ErrorCode.NONE:
                return outcome.error_message or outcome.error_code.name
        return None

    def _apply_read(self, header: BatchHeader, record: StateRecord) -> None:
        if header.is_transactional:
            self._apply_pending(header.producer_id, record)
        elif self._newest is not None:
            self._newest[record.key] = record
        else:
            self._apply(record)

    def _apply_pending(self, producer_id: int, record: StateRecord) -> None:
        if self._transactional is None or not self._transactional.apply_pending(producer_id, record):
            raise StorageError(f"{self.partition.name} holds a record of an unknown kind: {record.key!r}")

    def _end_transaction(self, control_batch: Buffer) -> None:
        marker = decode_marker(control_batch)
        if marker is not None:
            self.end_transaction(marker.producer_id, is_commit=marker.marker_type is MarkerType.COMMIT)

    def _apply(self, record: StateRecord) -> None:
        if not any(state.apply(record) for state in self._states):
            raise StorageError(f"{self.partition.name} holds a record of an unknown kind: {record.key!r}")


def _in_batches(records: Sequence[StateRecord]) -> Iterator[Sequence[StateRecord]]:
    first = size_bytes = 0
    for n, record in enumerate(records):
        if n - first == _RECORDS_PER_BATCH or size_bytes > _BATCH_BYTES:
            yield records[first:n]
            first, size_bytes = n, 0
        size_bytes += len(record.key) + len(record.value or b"")
    if first < len(records):
        yield records[first:]
