"""Which transactions of a log are not over for its readers (Kafka's ``ProducerStateManager``, ``TxnMetadata``).

Invariants:
- :meth:`OpenTransactions.first_unstable_offset` is the first offset of the earliest transaction that is open, or that a
  marker has ended which readers cannot see yet: one that a power cut may still take, so that the transaction is open
  again. It never goes back.
- Every call costs the same, however many transactions are open: they begin at rising offsets, so that the earliest is
  the one that came first. Of those that have ended only the ones are kept that may still be the earliest, and only
  until readers can see their marker.

What it is told is written: nothing of it is ever taken back.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

ABORTED_VERSION: Final = 0
ABORTED_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """One that was aborted, as an entry of a segment's ``.txnindex`` has it (Kafka's ``AbortedTxn``): 34 bytes."""

    version: int
    producer_id: int
    first_offset: int  # of its first batch
    last_offset: int  # of its marker, inclusive
    last_stable_offset: int  # of the log once it was over, whatever was durable


class OpenTransactions:
    """Those of one log, by producer id."""

    __slots__ = ("_ended", "_first_offsets")

    def __init__(self, first_offsets: Iterable[tuple[int, int]] = ()) -> None:
        """``first_offsets``: of each producer whose transaction is open, in the order of these offsets."""
        self._first_offsets: OrderedDict[int, int] = OrderedDict(first_offsets)
        # First offset and marker's, both rising: of two the earlier says nothing once the later one began before it.
        self._ended: deque[tuple[int, int]] = deque()

    def __bool__(self) -> bool:
        """Whether there may be any that readers have to stop before."""
        return bool(self._first_offsets or self._ended)

    def __len__(self) -> int:
        """How many are open."""
        return len(self._first_offsets)

    def began(self, producer_id: int, offset: int) -> None:
        """A batch of a transaction was written at ``offset``, the first one or a later one."""
        self._first_offsets.setdefault(producer_id, offset)

    def end(
        self, producer_id: int, marker_offset: int, *, aborted: bool, high_watermark: int = 0
    ) -> AbortedTxn | None:
        """A marker was written. What the index has to tell, if it was an abort of a transaction that was open."""
        self._forget_what_is_seen(high_watermark)
        first_offset = self._first_offsets.pop(producer_id, None)
        if first_offset is None:  # a fence
            return None
        ended = self._ended
        while ended and ended[-1][0] >= first_offset:
            ended.pop()
        ended.append((first_offset, marker_offset))
        if not aborted:
            return None
        earliest = next(iter(self._first_offsets.values()), marker_offset + 1)
        return AbortedTxn(ABORTED_VERSION, producer_id, first_offset, marker_offset, earliest)

    def first_unstable_offset(self, high_watermark: int) -> int:
        """Before which a reader of what is committed has to stop, at the mark at the latest."""
        self._forget_what_is_seen(high_watermark)
        ended = self._ended
        first = min(ended[0][0], high_watermark) if ended else high_watermark
        return min(first, next(iter(self._first_offsets.values()), first))

    def _forget_what_is_seen(self, high_watermark: int) -> None:
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
