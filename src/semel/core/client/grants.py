"""Under which producer id and epoch the partitions write: granted once, or leased anew in time, and left behind.

There is one newest grant; each partition moves to it by itself (:mod:`semel.core.client.partition_queue`). A
partition leaves a grant when a batch under it failed in a way that its sequences cannot get over. Then the epoch is
raised, which shuts out what is still under way of the old one; when the epochs are used up, or are not ours to
raise, another grant is asked for. A lease is left by reading the log, and another one asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from semel.core.client.events import Effects
from semel.core.client.leasing import Leasing
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode
from semel.types import PRODUCER_EPOCH_MAX, Lease, ProducerGrant, TopicPartition


class Grants:
    """The newest grant, and the question for the next one."""

    __slots__ = ("_asks", "_is_asking", "_leasing", "_raises_epoch", "newest", "unleasable")

    def __init__(self, settings: PipelineSettings) -> None:
        self.newest: ProducerGrant | None = None
        self.unleasable: tuple[ErrorCode, str] | None = None  # why there will never be a lease
        # Who has an identity waits to be given its grant: rows under another id would be in none of its counts.
        self._asks = not settings.strict and not settings.lease
        self._is_asking = False
        self._raises_epoch = settings.raises_epoch and not settings.lease
        self._leasing = (
            Leasing(settings.retry_backoff_ms, settings.retry_backoff_ms_max) if settings.lease else None
        )

    def take(self, grant: ProducerGrant) -> None:
        self.newest, self._is_asking = grant, False

    def take_lease(self, lease: Lease, asked_ms: int, now_ms: int) -> None:
        if self._leasing is not None and self._leasing.take(lease, asked_ms, now_ms):
            self.newest = self._leasing.grant

    def refuse_lease(self, now_ms: int) -> None:
        if self._leasing is not None:
            self._leasing.refuse(now_ms)

    def refuse_leases(self, code: ErrorCode, why: str, now_ms: int) -> None:
        """There will never be another one; the one that there is serves as long as it lives."""
        if self._leasing is None or self._leasing.tenure is None:
            self.unleasable = code, why
        else:
            self._leasing.refuse(now_ms)

    def next_lease_ms(self) -> int | None:
        """When the next lease is to be asked for; None without leases, and while an answer is due."""
        return None if self._leasing is None else self._leasing.next_question_ms()

    def lease_if_due(self, tps: Iterable[TopicPartition], now_ms: int, effects: Effects) -> None:
        """Forget a lease that is over; ask for the next one, with room for ``tps``, when it is time."""
        if self._leasing is None:
            return
        if self.newest is None or self._leasing.ends_by(now_ms):
            self.newest = self._leasing.tenure = None
        due_ms = self._leasing.next_question_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._leasing.is_asking = True
            effects.ask_lease = tuple(tps)

    def lets_send(self, queue: PartitionQueue, effects: Effects) -> bool:
        """Have the partition move to the newest grant; whether what waits there may go, under this or an older one."""
        ends_ms = None if self._leasing is None else self._leasing.ends_ms
        if self.newest is not None and queue.adopt(self.newest, ends_ms):
            return True
        if self.newest is None and self._asks and not self._is_asking:
            self._is_asking = effects.ask_grant = True
        return queue.may_finish

    def drop(self, queue: PartitionQueue, now_ms: int) -> None:
        """Go on under a raised epoch or another id, once every answer for the old one is in.

        A lease is left by reading the log: nobody who waits behind what failed is in doubt for that.
        """
        if queue.is_under_lease and queue.begun:
            queue.shut_out(now_ms)
            self.give_up_lease(queue, now_ms)
            return
        if queue.grant == self.newest:
            self.newest = self._raised(queue.grant)
        queue.leave()

    def give_up_lease(self, queue: PartitionQueue, now_ms: int) -> None:
        """The partition's lease is of no use any more; if it is the newest one, another is due."""
        assert self._leasing is not None
        if queue.grant == self.newest:
            self.newest = None
            self._leasing.give_up(now_ms)

    def _raised(self, grant: ProducerGrant | None) -> ProducerGrant | None:
        """The same id with the next epoch; None if one has to be asked for."""
        if grant is None or not self._raises_epoch or grant.producer_epoch >= PRODUCER_EPOCH_MAX:
            return None
        return replace(grant, producer_epoch=grant.producer_epoch + 1)
