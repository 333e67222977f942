"""Finds the aborted transactions of segments whose index of them cannot be believed, or was not there yet.

Which transactions were open where such a segment begins is told by a snapshot of the producers from before it, and by
the batches behind that; else by all batches of the log. What began before the log's first batch, and ended in it, is
not found. Nobody reads it either.

Invariant: the index is, byte for byte, the one that was written as the markers came, but for what the log does not hold
any more. While it is not whole, the file that was not believed is still there to say so at the next start.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from semel.core.log.names import TXN_INDEX_SUFFIX, file_name
from semel.core.log.transactions import OpenTransactions
from semel.core.producer_state.state import ProducerState
from semel.errors import CorruptRecordBatch
from semel.record.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, decode_header, validate_batch
from semel.record.control import is_abort
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.segment import DamagedLog, Segment
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.txn_index import TxnIndex
from semel.types import NO_PRODUCER_ID


def rebuild_aborted(
    files: OpenFiles,
    folder: Path,
    segments: Sequence[Segment],
    scanned: Collection[Segment],
    snapshots: SnapshotFiles,
    *,
    have_markers: bool,
    now_ms: int,
) -> None:
    """Make the index of each segment that was ``scanned`` anew, durably. ``have_markers``: whether any was met there.

    Raises :class:`DamagedLog`.
    """
    if not scanned:
        return
    made = {
        segment: TxnIndex(files, folder / file_name(segment.base_offset, TXN_INDEX_SUFFIX))
        for segment in scanned
    }
    if have_markers:
        first_offset = segments[0].base_offset
        known = snapshots.load_newest(now_ms=now_ms, end_offset_max=min(one.base_offset for one in scanned))
        if known is None or known.end_offset < first_offset:
            known = ProducerState(end_offset=first_offset)
        transactions = OpenTransactions(
            (one.producer_id, one.first_offset) for one in known.open_transactions()
        )
        for segment in segments:
            if segment.end_offset > known.end_offset:
                _follow(segment, known.end_offset, transactions, made.get(segment))
    for segment, aborted in made.items():
        aborted.replace()
        if segment is not segments[-1]:
            aborted.freeze()
            aborted.cool()
        segment.aborted = aborted


def _follow(
    segment: Segment, from_offset: int, transactions: OpenTransactions, index: TxnIndex | None
) -> None:
    """What the batches from ``from_offset`` on begin and end; ``index``: that of a segment that was scanned."""
    position = segment.position_of(max(from_offset, segment.base_offset))
    for place in segment.walk(position, segment.size_bytes):
        wanted = place.size_bytes if index is None else HEADER_BYTES
        try:
            data = segment.file.pread(wanted, place.position)
            header = validate_batch(data) if index is None else decode_header(data)
            is_one = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
            if not is_one or header.producer_id == NO_PRODUCER_ID:
                continue
            if not header.is_control:
                transactions.began(header.producer_id, header.base_offset)
                continue
            aborts = is_abort(segment.file.pread(place.size_bytes, place.position))
        except CorruptRecordBatch as error:
            log_name = segment.held.path.name
            raise DamagedLog(log_name, place.position, place.base_offset, str(error)) from error
        aborted = transactions.end(header.producer_id, header.base_offset, aborted=aborts)
        if aborted is not None and index is not None:
            index.append(aborted)
