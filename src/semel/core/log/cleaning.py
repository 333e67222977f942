"""Which part of a compacted log is cleaned now, and what of its batches stays.

Kafka's ``LogCleanerManager`` (which part), ``Cleaner`` and ``MemoryRecords.filterTo`` (what stays); KIP-58 and
KIP-354 for the lags, KIP-534 for the horizon of tombstones.

Invariants:
- Of each key the newest record below the end of a pass stays, at its offset; what comes behind is not touched. A
  tombstone stays until its batch's delete horizon, which the first pass over it sets; by then no older record of its
  key is left. A record without a key goes.
- The active segment is never cleaned, nor what is not synced and stable.
- No verdict changes. Of a producer that is known its window and its newest marker stay, empty where their rows are
  gone, and what is no part of its window cannot become one: it is made nobody's where a replay would take it for one,
  and so are all rows of a producer that is known no more (:func:`fate_of`, :func:`fate_of_marker`).
- Offsets stay dense: one empty batch stands for what is gone between two others. (Kafka leaves a gap there. A log
  without gaps is one in which a segment that was lost shows.)

- Nothing of an open transaction is touched, nor what comes behind. Rows of aborted ones go, whatever their keys; those
  of committed ones stay as rows of no transaction. So no reader and no replay needs the marker of what was compacted,
  and a marker stays for what it says of its producer only. (Kafka keeps the bit of a committed row, and so must keep
  the marker until no row of the transaction is left, and ``delete.retention.ms`` more.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from semel.core.log.config import NO_LAG_MAX, LogConfig
from semel.core.log.policy import POSITION_MAX, SegmentFacts, age_mark_ms
from semel.core.producer_state.entry import WINDOW_BATCHES_MAX, ProducerEntry
from semel.record.batch import BatchHeader
from semel.types import NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from semel.record.index import Int64s

SegmentT = TypeVar("SegmentT")


class Dirty(NamedTuple):
    """The part that no pass has read yet, and could read now: whole segments but for the first."""

    from_offset: int
    end_offset: int  # exclusive
    clean_bytes: int  # before it
    dirty_bytes: int
    is_overdue: bool  # by ``max.compaction.lag.ms``

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    def is_due(self, config: LogConfig) -> bool:
        """Whether it is to be cleaned now (``LogCleanerManager.grabFilthiestCompactedLog``)."""
        return self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio


def find_dirty(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    cleaned_to: int | None,
    log_start_offset: int,
    readable_to: int,
    first_times_ms: Sequence[int],
    now_ms: int,
) -> Dirty | None:
    """What can be cleaned of ``segments``, of which the last one grows (``LogCleanerManager.cleanableOffsets``).

    ``cleaned_to`` is what the checkpoint says, ``readable_to`` up to where all is synced and stable. ``first_times_ms``
    are the times of the full segments' first batches; wanted only where there is a largest lag, and of dirty ones.
    """
    from_offset = log_start_offset
    if cleaned_to is not None and log_start_offset < cleaned_to <= segments[-1].base_offset:
        from_offset = cleaned_to
    count = clean_bytes = dirty_bytes = 0
    for segment, after in pairwise(segments):
        if after.base_offset > readable_to:
            break
        if after.base_offset <= from_offset:
            clean_bytes += segment.size_bytes
        elif config.min_compaction_lag_ms and now_ms - age_mark_ms(segment) < config.min_compaction_lag_ms:
            break
        else:
            dirty_bytes += segment.size_bytes
        count += 1
    end_offset = segments[count].base_offset
    if end_offset <= from_offset:
        return None
    is_overdue = config.max_compaction_lag_ms < NO_LAG_MAX and any(
        0 < first_ms < now_ms - config.max_compaction_lag_ms
        for first_ms, after in zip(first_times_ms, segments[1 : count + 1], strict=False)
        if after.base_offset > from_offset
    )
    return Dirty(from_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)


def in_groups(
    segments: Sequence[tuple[SegmentT, SegmentFacts]], end_offset: int, segment_bytes: int
) -> Iterator[list[SegmentT]]:
    """Segments that together become one: small ones grow together again (``Cleaner.groupSegmentsBySize``).

    ``end_offset`` is where the last of them ends.
    """
    group: list[SegmentT] = []
    base_offset = size_bytes = 0
    ends = [*(facts.base_offset for _, facts in segments[1:]), end_offset]
    for (segment, facts), end in zip(segments, ends, strict=True):
        is_full = size_bytes + facts.size_bytes > min(segment_bytes, POSITION_MAX)
        if group and (is_full or end - base_offset > POSITION_MAX):
            yield group
            group, size_bytes = [], 0
        if not group:
            base_offset = facts.base_offset
        group.append(segment)
        size_bytes += facts.size_bytes
    if group:
        yield group


class Fate(NamedTuple):
    """What becomes of a batch by who wrote it. What becomes of its records, their keys say."""

    has_a_say: bool = True  # else nothing of it stays, whatever it says
    is_remembered: bool = False  # it stays though it be empty
    is_nobodys: bool = False  # what stays of it tells no producer


_ORDINARY: Final = Fate()
_REMEMBERED: Final = Fate(is_remembered=True)
_NOBODYS: Final = Fate(is_nobodys=True)
_GONE: Final = Fate(has_a_say=False)


def fate_of(header: BatchHeader, entry: ProducerEntry | None) -> Fate:
    """Of a batch with rows; ``entry`` is what is known of its producer.

    A replay of what stays has to give the entry again. So its window stays; in front of a full window anything may
    stand, for five batches push it out; in front of one that is not full nothing of the same epoch may, as there is
    where a producer was forgotten and began again.
    """
    if header.producer_id == NO_PRODUCER_ID:
        return _ORDINARY
    if (
        entry is None or header.base_sequence == NO_SEQUENCE
    ):  # the server's own, of a transaction that is over
        return _NOBODYS
    if any(span.base_offset == header.base_offset for span in entry.window):
        return _REMEMBERED
    is_pushed_out = len(entry.window) == WINDOW_BATCHES_MAX or header.producer_epoch < entry.producer_epoch
    return _ORDINARY if is_pushed_out else _NOBODYS


def fate_of_marker(
    header: BatchHeader, coordinator_epoch: int, entry: ProducerEntry | None, newest_offset: int | None
) -> Fate:
    """Likewise; ``newest_offset`` is that of the newest marker that this pass has read of its producer, if any.

    One of another coordinator epoch than the entry's was the producer's before it was forgotten.
    """
    is_newest = newest_offset is None or header.base_offset >= newest_offset
    is_its = entry is not None and entry.coordinator_epoch == coordinator_epoch
    return _REMEMBERED if is_its and is_newest else _GONE


def keeps_tombstones(header: BatchHeader, now_ms: int) -> bool:
    """Whether the batch's tombstones are still to be seen by readers who come late."""
    return not header.has_delete_horizon or now_ms < header.base_timestamp


def records_that_stay(
    offset: Int64s,
    has_key: npt.NDArray[np.bool_],
    is_tombstone: npt.NDArray[np.bool_],
    newest: Int64s,
    read_to: int,
    *,
    tombstones_stay: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """``newest``: the newest offset of each record's key that the pass knows, -1 for none (``shouldRetainRecord``).

    Below ``read_to`` it knows all that there is.
    """
    return (offset >= read_to) | (has_key & (offset >= newest) & (~is_tombstone | tombstones_stay))
