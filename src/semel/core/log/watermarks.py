"""How far a log goes, for whom: its end, what is durable of it, and what readers may see.

Invariants:
- ``synced.offset`` and ``last_stable_offset`` <= ``high_watermark`` <= ``log_end_offset``, and none goes back.
- Where a log is durable the high watermark is the end of what was synced: no reader ever sees what a power cut can
  take. Where the page cache is trusted with it, it is the end of the log.
- Stable is what comes before the first transaction that is open, or whose end readers cannot see yet
  (:mod:`semel.core.log.transactions`): where there are none, all that may be seen.

One thread appends, and another may tell of a sync meanwhile: what it tells is one value, and what readers may see
follows it. Only the one that appends asks for what is stable.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from semel.core.log.transactions import OpenTransactions


class FetchIsolation(Enum):
    """Up to where a reader reads (Kafka's ``FetchIsolation``)."""

    LOG_END = "log end"  # the server's own
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class Synced(NamedTuple):
    """The end of what is durable; ``position`` is where that is in its segment, when that is known."""

    offset: int
    position: int | None


class Watermarks:
    """Of one log; all are exclusive ends."""

    __slots__ = ("_is_durable", "high_watermark", "log_end_offset", "synced", "transactions")

    def __init__(
        self, synced: Synced, *, durable: bool, transactions: OpenTransactions | None = None
    ) -> None:
        """All there is, is synced."""
        self._is_durable: Final = durable
        self.log_end_offset = synced.offset
        self.synced = synced
        self.high_watermark = synced.offset  # what readers may see
        self.transactions: Final = OpenTransactions() if transactions is None else transactions

    def appended(self, log_end_offset: int) -> None:
        self.log_end_offset = log_end_offset
        if not self._is_durable:
            self.high_watermark = log_end_offset

    def synced_to(self, offset: int, position: int | None) -> None:
        assert self.synced.offset <= offset <= self.log_end_offset, f"synced to {offset}"
        self.synced = Synced(offset, position)
        if self._is_durable:
            self.high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """What readers may see that want no open transaction's records."""
        transactions, high_watermark = self.transactions, self.high_watermark
        return transactions.first_unstable_offset(high_watermark) if transactions else high_watermark

    def end_for(self, isolation: FetchIsolation) -> int:
        """Up to where such a reader reads."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        committed = isolation is FetchIsolation.TXN_COMMITTED
        return self.last_stable_offset if committed else self.high_watermark
