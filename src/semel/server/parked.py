"""Fetches that wait for something to read (Kafka's ``DelayedOperationPurgatory``, without its wheel).

Invariants: a parked fetch is completed exactly once, at its deadline at the latest; a fetch whose connection
has gone is dropped and leaves nothing behind. What they wait for is bounded in all: beyond that the largest
fetch is answered with what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from semel.server.outcome import Answer, WhenReadable
from semel.types import TopicPartition

WAITS_MAX: Final = 200_000  # of a fetch for a partition: about 100 MiB


class ParkedFetch:
    """One waiting fetch."""

    __slots__ = ("complete", "timer", "wait")

    def __init__(self, wait: WhenReadable, complete: Callable[[Answer], None]) -> None:
        self.wait: Final = wait
        self.complete: Final = complete
        self.timer: asyncio.TimerHandle | None = None


class ParkedFetches:
    """All of them, found by the partitions that they wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_partition: dict[TopicPartition, set[ParkedFetch]] = {}
        self._woken: set[TopicPartition] = set()
        self._all: set[ParkedFetch] = set()
        self._relieving = False
        self._waits = 0  # partitions that they wait for, each fetch's counted

    def __len__(self) -> int:
        return len(self._all)

    def park(self, wait: WhenReadable, complete: Callable[[Answer], None]) -> ParkedFetch:
        parked = ParkedFetch(wait, complete)
        for partition in wait.partitions:
            self._by_partition.setdefault(partition, set()).add(parked)
        parked.timer = self._loop.call_later(wait.wait_ms / 1000, self._expire, parked)
        self._all.add(parked)
        self._waits += len(wait.partitions)
        if self._waits > WAITS_MAX and not self._relieving:
            self._relieving = True
            self._loop.call_soon(
                self._relieve
            )  # the newest, too, may be the one: its owner must know it first
        return parked

    def wake(self, partitions: Iterable[TopicPartition]) -> None:
        """These have more to read. The looking is put off, so that many appends cost one look."""
        waited_for = self._by_partition.keys() & set(partitions)
        if waited_for:
            if not self._woken:
                self._loop.call_soon(self._look)
            self._woken |= waited_for

    def drop(self, parked: ParkedFetch) -> None:
        """Forget it: its connection has gone."""
        if parked.timer is not None:
            parked.timer.cancel()
        if parked in self._all:
            self._all.remove(parked)
            self._waits -= len(parked.wait.partitions)
        for partition in parked.wait.partitions:
            waiting = self._by_partition.get(partition)
            if waiting is not None:
                waiting.discard(parked)
                if not waiting:
                    del self._by_partition[partition]

    def expire_all(self) -> None:
        """Answer everything with what there is: the server stops."""
        for parked in list(self._all):
            self._expire(parked)

    def _relieve(self) -> None:
        self._relieving = False
        while self._waits > WAITS_MAX:
            self._expire(max(self._all, key=lambda parked: len(parked.wait.partitions)))

    def _look(self) -> None:
        woken, self._woken = self._woken, set()
        for parked in {one for partition in woken for one in self._by_partition.get(partition, ())}:
            answer = parked.wait.attempt(False)
            if answer is not None:
                self.drop(parked)
                parked.complete(answer)

    def _expire(self, parked: ParkedFetch) -> None:
        self.drop(parked)
        answer = parked.wait.attempt(True)
        assert answer is not None, "the last attempt of a fetch gave no answer"
        parked.complete(answer)
