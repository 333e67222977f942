"""What the coordinators of groups and of transactions have in common: a log, requests that wait, and a deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from semel.errors import ErrorCode
from semel.server.operation import is_durable
from semel.server.storage.partition import Partition
from semel.server.storage.state_log import StateLog, Submitted

T = TypeVar("T")

# Kafka's clients do not expect a storage error here; this one makes them look for the coordinator again.
NOT_STORED: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Coordinator:
    """One server's. ``monotonic_ms`` counts sessions, time-outs and deadlines."""

    def __init__(
        self,
        log: StateLog,
        monotonic_ms: Callable[[], int],
        storage_failed: Callable[[Partition, str | None], None],
    ) -> None:
        self.log: Final = log
        self._monotonic_ms = monotonic_ms
        self._storage_failed = storage_failed
        self._wake: Callable[[Iterable[Hashable]], None] = lambda keys: None
        self._due_in_ms: Callable[[int], None] = lambda delay_ms: None
        self._told_ms: int | None = None  # the deadline that :attr:`_due_in_ms` was told of last

    def when_happened(self, wake: Callable[[Iterable[Hashable]], None]) -> None:
        """``wake`` hears of what requests wait for."""
        self._wake = wake

    def when_due(self, due_in_ms: Callable[[int], None]) -> None:
        """``due_in_ms`` hears in how many ms :meth:`tick` is wanted, whenever that is sooner than it knew."""
        self._due_in_ms = due_in_ms
        self._told_ms = None
        self._tell_deadline()

    def tick(self, time_of_day_ms: int) -> None:
        """Carry out what is due by now."""
        self._told_ms = None
        self._do_due(time_of_day_ms)
        self._tell_deadline()

    def _do_due(self, time_of_day_ms: int) -> None:
        raise NotImplementedError

    def _next_due_ms(self, now_ms: int) -> int | None:
        raise NotImplementedError

    def _tell_deadline(self) -> None:
        now_ms = self._monotonic_ms()
        due_ms = self._next_due_ms(now_ms)
        if due_ms is not None and (self._told_ms is None or due_ms < self._told_ms):
            self._told_ms = due_ms
            self._due_in_ms(max(0, due_ms - now_ms))

    async def _durably(self, submitted: Submitted[T]) -> T | None:
        """The response once it, and all before it, is durable; None where it will not be."""
        self._tell_deadline()
        partition = self.log.partition
        if submitted.error_message is None and await is_durable(partition, submitted.sync_offset):
            return submitted.response
        self._storage_failed(partition, submitted.error_message or partition.offline_reason)
        return None
