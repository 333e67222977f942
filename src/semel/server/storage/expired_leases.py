"""What leases that are over have left in the partitions: it goes soon, and at once where somebody wants the room.

Invariants:
- A row goes only once its lease is over for all who judge. Until it has gone it counts against the bound, for it
  takes memory: there is never more of that than the bound says.
- Nobody waits for all of them to go: they go a few at a time, those that were issued first from each partition
  first. Each costs one step, however many rows there are beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from semel.core.lease import LiveLeases
from semel.server.storage.partition import Partition
from semel.types import LEASED_IDS_FROM, TopicPartition

_STEPS: Final = 512  # at a time, a few milliseconds: a row that goes, or a partition that is looked at


class ExpiredLeases:
    """Goes round the partitions once each time that leases have ended."""

    def __init__(self, partitions: Mapping[TopicPartition, Partition], live: LiveLeases) -> None:
        self._partitions = partitions
        self._live = live
        self._gone_below = LEASED_IDS_FROM  # nobody remembers any of these
        self._round: Iterator[None] | None = None

    def forget_some(self) -> bool:
        """Let a few rows go; whether there may be more of them."""
        if self._round is None:
            if self._gone_below == self._live.expired_below:
                return False
            self._round = self._go_round(self._live.expired_below)
        for _ in self._round:
            return True
        self._round = None
        return self._gone_below < self._live.expired_below

    def _go_round(self, expired_below: int) -> Iterator[None]:
        steps = _STEPS
        for partition in list(self._partitions.values()):
            steps -= 1
            while (took := partition.forget_leases(expired_below, steps)) >= steps:
                steps = _STEPS
                yield
            steps -= took
        self._gone_below = expired_below
