"""One pass over a compacted log: first its new part is read for keys, then the whole is written anew without what they
make old (Kafka's ``Cleaner``).

It is fed batches in the order of the log, and gives batches; where they come from and go to is the shell's business.
What is decided is in :mod:`semel.core.log.cleaning`.

Invariants: a batch is checked by its CRC before anything is taken of it, and one that stays as it is stays byte for
byte, but that it is of no transaction any more. One whose records are not what its header says, or more than anybody
means, stays whole. Memory: the map, 112 bytes for each producer that the partition knows, 24 for each aborted
transaction, and what batches are looked into together: a few times ``_ARENA_BYTES``, or ``_DECOMPRESSED_BYTES_MAX`` for
one that is larger, and about 100 bytes a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from semel.core.log.aborted_rows import AbortedRows
from semel.core.log.cleaning import Fate, fate_of, fate_of_marker, keeps_tombstones, records_that_stay
from semel.core.log.offset_map import OffsetMap
from semel.core.producer_state.entry import coordinator_epoch_in
from semel.core.producer_state.sorted_rows import SortedRows
from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    BatchHeader,
    decode_header,
    max_timestamp_of,
    payload_of,
    without_producer,
    without_transaction,
)
from semel.record.compression import Buffer
from semel.record.filtering import emptied, filtered, hole
from semel.record.index import BLOCK_RECORDS_MAX
from semel.record.keys import KeyedRecords, KeyHash, keyed_records
from semel.types import NO_TIMESTAMP

_ARENA_BYTES: Final = 8 * 1024 * 1024
_DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
_RECORDS_MAX: Final = 1 << 20  # of one batch

Checked = tuple[memoryview, BatchHeader]  # a batch whose CRC is right


class Kept(NamedTuple):
    """A batch that is to be written; its offsets follow on the ones before."""

    batch: Buffer
    last_offset: int
    max_timestamp_ms: int


class _Part(NamedTuple):
    """Batches that are looked into together, with their records if they could be read."""

    batches: Sequence[Checked]
    records: KeyedRecords | None


class CleaningPass:
    """``known``: the producers of the partition, of a moment up to which its log is synced; ``aborted``: of its aborted
    transactions all that reach into what is cleaned.
    """

    def __init__(
        self,
        known: SortedRows,
        offsets: OffsetMap,
        keys: KeyHash,
        *,
        from_offset: int,
        delete_retention_ms: int,
        now_ms: int,
        aborted: AbortedRows | None = None,
    ) -> None:
        self.read_to = from_offset  # of all below, the newest offset of each key is known
        self._from_offset: Final = from_offset
        self._known: Final = known
        self._offsets: Final = offsets
        self._keys: Final = keys
        self._delete_retention_ms: Final = delete_retention_ms
        self._now_ms: Final = now_ms
        self._aborted: Final = AbortedRows() if aborted is None else aborted
        self._markers: dict[int, int] = {}  # the newest one that was read, of each known producer
        self._hole: tuple[int, int, int] | None = None  # base and last offset, leader epoch

    # Reading

    def read(self, batches: Sequence[Checked]) -> bool:
        """Take in the keys of what comes next; whether there is room for more."""
        for _, header in batches:
            if header.is_control and header.producer_id in self._known:
                self._markers[header.producer_id] = header.base_offset
        new = [one for one in batches if one[1].last_offset >= self._from_offset]
        for part in self._parts([one for one in new if not self._aborted.has(one[1])]):
            if not self._read_part(part):
                return False
        self.read_to = max(self.read_to, batches[-1][1].last_offset + 1)
        return True

    def _read_part(self, part: _Part) -> bool:
        records = part.records
        if records is None:
            return True
        for first in range(0, len(records.offset), BLOCK_RECORDS_MAX):
            block = slice(first, first + BLOCK_RECORDS_MAX)
            which = first + np.flatnonzero(
                (records.key_length[block] >= 0) & (records.offset[block] >= self._from_offset)
            )
            hashes = self._keys.of(records.payload, records.key_start[which], records.key_length[which])
            taken = self._offsets.put(hashes, records.offset[which])
            if taken < len(which):
                self.read_to = max(self.read_to, int(records.offset[which[taken]]))
                return False
        return True

    # Writing

    def write(self, batches: Sequence[Checked]) -> Iterator[Kept]:
        """What stays of what comes next; a hole at its end waits for what follows."""
        for part in self._parts(batches):
            yield from self._write_part(part)

    def end(self) -> Iterator[Kept]:
        """Nothing follows in this segment."""
        if self._hole is not None:
            yield Kept(hole(*self._hole), self._hole[1], NO_TIMESTAMP)
            self._hole = None

    def _write_part(self, part: _Part) -> Iterator[Kept]:
        if part.records is None:
            for batch, header in part.batches:
                fate = self._fate_of(batch, header)
                if self._aborted.has(header):
                    yield from self._put(emptied(header) if fate.is_remembered else None, header)
                    continue
                yield from self._put(_whole(batch, fate) if fate.has_a_say else None, header)
            return
        stays = self._staying(part.batches, part.records)
        end = 0
        for (batch, header), count in zip(part.batches, part.records.counts.tolist(), strict=True):
            start, end = end, end + count
            yield from self._put(self._left_of(batch, header, part.records, start, stays[start:end]), header)

    def _fate_of(self, batch: memoryview, header: BatchHeader) -> Fate:
        entry = self._known.get(header.producer_id)
        if header.is_control:
            newest_offset = self._markers.get(header.producer_id)
            return fate_of_marker(header, coordinator_epoch_in(batch), entry, newest_offset)
        return fate_of(header, entry)

    def _left_of(
        self,
        batch: memoryview,
        header: BatchHeader,
        records: KeyedRecords,
        start: int,
        stays: npt.NDArray[np.bool_],
    ) -> Buffer | None:
        """A batch, whose records are those from ``start`` on, without what goes of it; ``None``: all of it goes."""
        fate = self._fate_of(batch, header)
        if not stays.any():
            if not fate.is_remembered:
                return None
            return emptied(header) if header.record_count else _whole(batch, fate)
        end = start + len(stays)
        horizon_ms = None
        is_read = header.last_offset < self.read_to  # else an older record of the key may be left
        if is_read and not header.has_delete_horizon and (records.value_length[start:end][stays] < 0).any():
            horizon_ms = self._now_ms + self._delete_retention_ms
        if horizon_ms is None and stays.all():
            return _whole(batch, fate)
        return filtered(
            header,
            records.payload,
            records.bounds[start : end + 1],
            records.timestamp_delta[start:end],
            stays,
            delete_horizon_ms=horizon_ms,
            keeps_producer=not fate.is_nobodys,
            keeps_max_timestamp=fate.is_remembered,
        )

    def _staying(self, batches: Sequence[Checked], records: KeyedRecords) -> npt.NDArray[np.bool_]:
        newest = np.empty(len(records.offset), np.int64)
        for first in range(0, len(newest), BLOCK_RECORDS_MAX):
            block = slice(first, first + BLOCK_RECORDS_MAX)
            newest[block] = self._offsets.newest(
                self._keys.of(records.payload, records.key_start[block], records.key_length[block])
            )
        tombstones_stay = np.array(
            [keeps_tombstones(header, self._now_ms) for _, header in batches], np.bool_
        )
        return records_that_stay(
            records.offset,
            records.key_length >= 0,
            records.value_length < 0,
            newest,
            self.read_to,
            tombstones_stay=np.repeat(tombstones_stay, records.counts),
        )

    def _put(self, batch: Buffer | None, header: BatchHeader) -> Iterator[Kept]:
        """What is left of the batch that had this header; ``None``: nothing, and a hole begins or goes on."""
        if batch is None:
            base_offset = header.base_offset if self._hole is None else self._hole[0]
            self._hole = base_offset, header.last_offset, header.partition_leader_epoch
            return
        yield from self.end()
        yield Kept(batch, header.last_offset, max_timestamp_of(batch))

    # Looking

    def _parts(self, batches: Iterable[Checked]) -> Iterator[_Part]:
        """Batches with their records, in parts of about ``_ARENA_BYTES``, in order."""
        part: list[Checked] = []
        payloads: list[tuple[BatchHeader, Buffer]] = []
        size_bytes = 0
        for batch, header in batches:
            payload = None if self._aborted.has(header) else _payload_of(batch, header)
            if payload is None or (part and size_bytes + len(payload) > _ARENA_BYTES):
                yield from _read_together(part, payloads)
                part, payloads, size_bytes = [], [], 0
            if payload is None:
                yield _Part([(batch, header)], None)
            else:
                part.append((batch, header))
                payloads.append((header, payload))
                size_bytes += len(payload)
        yield from _read_together(part, payloads)


def _read_together(
    part: Sequence[Checked], payloads: Sequence[tuple[BatchHeader, Buffer]]
) -> Iterator[_Part]:
    """One whose records are not what they should be costs the others no more than a second look."""
    if not part:
        return
    try:
        yield _Part(part, keyed_records(payloads))
    except CorruptRecordBatch:
        if len(part) == 1:
            yield _Part(part, None)
        else:
            for n in range(len(part)):
                yield from _read_together(part[n : n + 1], payloads[n : n + 1])


def _payload_of(batch: memoryview, header: BatchHeader) -> Buffer | None:
    """``None``: its records are not to be read; those of a control batch have no say here."""
    if header.is_control or header.record_count > _RECORDS_MAX:
        return None
    if header.record_count == 0:
        return b""
    try:
        return payload_of(batch, header, decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX)
    except CorruptRecordBatch:
        return None


def _whole(batch: memoryview, fate: Fate) -> Buffer:
    if fate.is_nobodys:
        return without_producer(batch)
    header = decode_header(batch)
    return without_transaction(batch) if header.is_transactional and not header.is_control else batch
