"""All that one partition knows of its producers.

Invariants:
- The state is a function of the batches below ``end_offset``: a snapshot with the tail replayed equals a
  replay of everything. Only :meth:`expire` takes from it.
- An id expires by the SERVER's time of its last append, which is no part of a snapshot: after a restart
  every id lives for the full span again. Kafka goes by the records' timestamps, and so forgets at once
  whoever loads old data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.verdict import APPEND, Verdict, judge
from semel.record.batch import BatchHeader
from semel.types import NO_PRODUCER_ID

_NEW = ProducerEntry()


class ProducerState:
    """The map producer id -> entry of one partition, and the offset up to which it speaks."""

    __slots__ = ("_entries", "_last_append_ms", "end_offset")

    def __init__(
        self, entries: Mapping[int, ProducerEntry] | None = None, *, end_offset: int = 0, now_ms: int = 0
    ) -> None:
        self._entries = dict(entries or {})
        self._last_append_ms = dict.fromkeys(self._entries, now_ms)  # in order of append: oldest first
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def judge(self, header: BatchHeader) -> Verdict:
        """What to do with a client's batch."""
        if header.producer_id == NO_PRODUCER_ID:
            return APPEND
        return judge(self._entries.get(header.producer_id), header)

    def apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> ProducerEntry | None:
        """A data batch was appended at ``base_offset``; what the judge said is not asked again.

        Gives the producer's entry as it was before, for :meth:`restore`.
        """
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        span = BatchSpan(header.base_sequence, header.last_sequence, base_offset, last_offset)
        before = self._entries.get(producer_id)
        entry = _NEW if before is None else before
        self._put(producer_id, entry.with_batch(header.producer_epoch, span, header.max_timestamp), now_ms)
        return before

    def apply_marker(
        self, header: BatchHeader, base_offset: int, coordinator_epoch: int, now_ms: int
    ) -> None:
        """A control batch was appended at ``base_offset``."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        entry = self._entries.get(header.producer_id, _NEW)
        marked = entry.with_marker(header.producer_epoch, coordinator_epoch, header.max_timestamp)
        self._put(header.producer_id, marked, now_ms)

    def restore(self, producer_id: int, entry: ProducerEntry | None) -> None:
        """Undo an append whose write failed: put back the entry as it was before it."""
        if producer_id == NO_PRODUCER_ID:
            return
        if entry is None:
            self._entries.pop(producer_id, None)
            self._last_append_ms.pop(producer_id, None)
        else:
            self._entries[producer_id] = entry

    def expire(self, before_ms: int) -> int:
        """Forget every id whose last append is older than ``before_ms``; how many there were."""
        expired = []
        for producer_id, last_append_ms in self._last_append_ms.items():
            if last_append_ms >= before_ms:
                break
            expired.append(producer_id)
        for producer_id in expired:
            del self._entries[producer_id], self._last_append_ms[producer_id]
        return len(expired)

    def _put(self, producer_id: int, entry: ProducerEntry, now_ms: int) -> None:
        self._entries[producer_id] = entry
        if self._last_append_ms.get(producer_id) != now_ms:
            self._last_append_ms.pop(producer_id, None)  # to the end: the oldest append stays first
            self._last_append_ms[producer_id] = now_ms
