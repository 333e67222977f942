"""The rows behind a saved position that the log holds already, read back: what is dropped is held against them.

Only what was not saved yet when the last run ended is read, of every partition from ``reread_offset`` on. Of each
row a digest is kept, in memory up to a bound and in a file without a name behind it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from typing import Final

from semel.client.below_end import fetch_below_end
from semel.client.cluster import Cluster
from semel.core.client.fingerprint import DIGEST_BYTES, Headers, row_digest
from semel.core.client.saved import NO_OFFSET, SavedIdentity, SavedPartition
from semel.errors import BrokerError, CannotKnow, ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.types import EARLIEST_TIMESTAMP, TopicPartition
from semel.wording import counted

_MEMORY_BYTES_MAX: Final = 1024 * 1024  # a partition; beyond it the digests go to a file


class StoredRows:
    """One partition's, in order. ``lost`` says why they cannot be told any more."""

    def __init__(self, tp: TopicPartition, lost: str | None = None) -> None:
        self._tp, self.lost = tp, lost
        self.count = self.compared = 0
        self._digests = SpooledTemporaryFile(_MEMORY_BYTES_MAX)  # noqa: SIM115 - close() ends it

    def add(self, digest: bytes) -> None:
        self._digests.write(digest)
        self.count += 1

    def begin_anew(self) -> None:
        self._digests.seek(0)
        self.count = 0

    def keep_last(self, count: int) -> None:
        """All are added; these are compared next."""
        self._digests.seek((self.count - count) * DIGEST_BYTES)
        self.count = count

    @property
    def is_done(self) -> bool:
        return self.compared >= self.count

    def is_next(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Whether the next one says this. :class:`CannotKnow` if nobody can tell any more."""
        if self.lost is not None:
            raise CannotKnow(self.lost)
        self.compared += 1
        return self._digests.read(DIGEST_BYTES) == row_digest(key, value, headers)

    def close(self) -> None:
        self._digests.close()


async def reread(
    cluster: Cluster, saved: SavedIdentity, tps: Iterable[TopicPartition]
) -> dict[TopicPartition, StoredRows]:
    """Of those partitions that hold rows behind the saved position, and of which it was saved where they lie."""
    found: dict[TopicPartition, StoredRows] = {}
    try:
        for tp in tps:
            item = saved.partitions[tp]
            if item.stored > item.handed and item.reread_offset != NO_OFFSET:
                found[tp] = StoredRows(tp)
                await _read(cluster, saved, tp, item, found[tp])
    except BaseException:
        for rows in found.values():
            rows.close()
        raise
    return found


async def _read(
    cluster: Cluster, saved: SavedIdentity, tp: TopicPartition, item: SavedPartition, into: StoredRows
) -> None:
    ids = {saved.producer_id, *saved.earlier_ids}
    due, whole = item.stored - item.handed, item.stored - item.reread_rows
    offset, is_whole = item.reread_offset, True

    while offset < item.counted_to_offset:
        fetched = await fetch_below_end(cluster, tp, offset)
        if fetched.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Perhaps only rows in front of those that are due were deleted.
            starts = await cluster.list_offsets({tp: EARLIEST_TIMESTAMP}, "read_uncommitted")
            if starts[tp].offset <= offset:
                raise CannotKnow(
                    f"{tp} ends in front of offset {offset}, where it had rows: its log lost them"
                )
            offset, is_whole = starts[tp].offset, False
            into.begin_anew()
            continue
        if fetched.error_code is not ErrorCode.NONE:
            raise BrokerError(fetched.error_code, f"read {tp} from offset {offset} on")
        for batch, header in scan_batches(fetched.records, allow_partial_tail=True):
            if header.base_offset >= item.counted_to_offset:
                offset = item.counted_to_offset
                break
            if header.producer_id in ids and not header.is_control:
                for record in decode_records(batch):
                    if record.offset >= offset:
                        into.add(row_digest(record.key, record.value, record.headers))
            offset = max(offset, header.last_offset + 1)
    if into.count < due or (is_whole and into.count != whole):
        into.lost = _lost(saved, tp, due)
        return
    into.keep_last(due)


def _lost(saved: SavedIdentity, tp: TopicPartition, due: int) -> str:
    return (
        f"{counted(due, 'row')} of {tp} behind position {saved.position!r} were stored by identity {saved.name!r}, and "
        f"some were deleted since, by retention, a trim or compaction, so that those that come again cannot be "
        f"compared with them. If you know that this is the input of that run, go on by their number alone, with "
        f"compare_rows=False; else start a new identity behind what is stored"
    )


def closed(rows: Iterable[StoredRows]) -> None:
    """End what is left of them."""
    for item in rows:
        with contextlib.suppress(OSError):
            item.close()
