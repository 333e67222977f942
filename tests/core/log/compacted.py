"""Logs in memory that are compacted, and what must be true of them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from semel.core.log.aborted_rows import AbortedRows
from semel.core.log.cleaning_pass import CleaningPass
from semel.core.log.offset_map import OffsetMap
from semel.core.log.transactions import ABORTED_ENTRY, AbortedTxn
from semel.core.producer_state.entry import ProducerEntry, coordinator_epoch_in
from semel.core.producer_state.sorted_rows import SortedRows
from semel.core.producer_state.state import ProducerState
from semel.record.batch import Record, decode_records, scan_batches
from semel.record.keys import KeyHash

NOW_MS = 1_000_000
DAY_MS = 86_400_000
KEYS = KeyHash(b"s" * 32)


def compacted(
    log: Sequence[bytes],
    known: ProducerState | None = None,
    *,
    from_offset: int = 0,
    map_bytes: int = 1 << 20,
    now_ms: int = NOW_MS,
    chunk_batches: int = 3,
    dirty: Sequence[bytes] | None = None,
    aborted: Sequence[AbortedTxn] = (),
) -> tuple[list[bytes], int]:
    """What is left of ``log``, and up to where its keys were read: of all of it, or of ``dirty``."""
    state = replayed(log) if known is None else known
    cleaning = CleaningPass(
        SortedRows(state.freeze().in_order()),
        OffsetMap(map_bytes, 1 << 20),
        KEYS,
        from_offset=from_offset,
        delete_retention_ms=DAY_MS,
        now_ms=now_ms,
        aborted=AbortedRows(b"".join(ABORTED_ENTRY.pack(*entry) for entry in aborted)),
    )
    for chunk in _chunks(log if dirty is None else dirty, chunk_batches):
        if not cleaning.read(list(scan_batches(b"".join(chunk)))):
            break
    left = [
        bytes(one.batch)
        for chunk in _chunks(log, chunk_batches)
        for one in cleaning.write(list(scan_batches(b"".join(chunk))))
    ]
    left += [bytes(one.batch) for one in cleaning.end()]
    return left, cleaning.read_to


def _chunks(log: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    return (log[n : n + size] for n in range(0, len(log), size))


def replayed(log: Sequence[bytes]) -> ProducerState:
    """What a start without any snapshot knows."""
    state = ProducerState()
    for batch, header in scan_batches(b"".join(log)):
        if header.is_control:
            state.apply_marker(header, header.base_offset, coordinator_epoch_in(batch), NOW_MS)
        else:
            state.apply(header, header.base_offset, NOW_MS)
    return state


def entries(state: ProducerState) -> dict[int, ProducerEntry]:
    return dict(state)


def records_in(log: Sequence[bytes]) -> list[Record]:
    return [
        record
        for batch, header in scan_batches(b"".join(log))
        if not header.is_control
        for record in decode_records(batch)
    ]


def newest_of_each_key(records: Iterable[Record]) -> Mapping[bytes, Record]:
    return {record.key: record for record in records if record.key is not None}


def assert_dense(log: Sequence[bytes], end_offset: int) -> None:
    due = 0
    for _, header in scan_batches(b"".join(log)):
        assert header.base_offset == due
        due = header.last_offset + 1
    assert due == end_offset
