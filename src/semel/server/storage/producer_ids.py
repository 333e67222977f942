"""Producer ids and leases as one server hands them out: two log-backed cores, and what they share.

Invariants:
- A grant is told only once it is durable; so is a refusal that rests on another grant.
- That leases are over is durable before any partition judges by it: what one was told to be over stays over,
  whoever starts next.
- A block of ids is in the log before its first id is used, wherever it comes from. Where the next one must be asked
  for, that is done when half of this one is used; with none at hand, grants are told to come again.
- A lease finds the room that it asked for, first or when it is resumed: it is kept free among all that the server can
  remember of producers.

Wall-clock time enters as ``now_ms``. Lives are counted by ``monotonic_ms``, for the wall clock may step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from semel.core import identity
from semel.core.decision import Decision
from semel.core.identity import BLOCK_IDS, IdBlock, Identities, InitProducer, Refused
from semel.core.lease import STARTING_EPOCHS, LeaseRequest, Leases, LiveLeases
from semel.errors import ErrorCode, StorageError
from semel.server.storage.id_blocks import IdBlocks
from semel.server.storage.observer import StorageObserver
from semel.server.storage.producer_bound import ProducerBound
from semel.server.storage.state_log import StateLog, Submitted
from semel.types import (
    LEASED_IDS_FROM,
    NO_PRODUCER_ID,
    Lease,
    TopicPartition,
    is_leased,
)

Response: TypeAlias = identity.Response | Lease
_NO_IDS: Final = Refused(ErrorCode.KAFKA_STORAGE_ERROR, "no producer ids could be claimed")


class ProducerIds:
    """Who may write, for how long, and room for what is to be remembered of them."""

    def __init__(
        self,
        bound: ProducerBound,
        lease_ms: int,
        monotonic_ms: Callable[[], int],
        random_bits: Callable[[], int],
        id_blocks: IdBlocks,
        written_by: Callable[[int], Iterable[TopicPartition]],
        name_of: Callable[[int], str | None],
        observer: StorageObserver,
    ) -> None:
        """Read the log into ``identities`` and ``leases``, then :meth:`begin`.

        ``written_by`` tells in which partitions a producer id is known, ``name_of`` the transactional id that has it.
        """
        self.identities: Final = Identities(name_of)
        self.leases: Final = Leases()
        self.live_leases: Final = LiveLeases()  # what the partitions judge by
        self.leases_refused = 0  # for want of room
        self._bound = bound
        self._lease_ms = lease_ms
        self._monotonic_ms = monotonic_ms
        self._random_bits = random_bits
        self._id_blocks = id_blocks
        self._written_by = written_by
        self._observer = observer
        self._log: StateLog
        self._free_ids = IdBlock(0, 0)
        self._durable_from = 0  # of the log: then the newest expiry is durable

    def begin(self, log: StateLog) -> None:
        """The cores have been read from ``log``, all of which is durable. Every lease has its whole life again."""
        self._log = log
        leases = self.leases
        if len(leases) and leases.length_ms != self._lease_ms:
            raise StorageError(
                f"producer.lease.ms is {self._lease_ms}, and leases of {leases.length_ms} ms live ({len(leases)}); "
                f"start with producer.lease.ms={leases.length_ms} until they are over"
            )
        leases.see(self._monotonic_ms())
        self.live_leases.granted_below = leases.granted_below
        self.live_leases.expired_below = leases.expired_below
        for lease in leases:
            self._bound.reserve(lease.producer_id, lease.room)
        self._id_blocks.claim_ahead(self.identities.next_id)

    def init(
        self,
        producer_id: int,
        producer_epoch: int,
        lease_partitions: tuple[TopicPartition, ...] | None,
        now_ms: int,
    ) -> Submitted[Response]:
        """Grant the right to write (InitProducerId without a name); as a lease if partitions are named for one.

        A leased id is resumed as one whether they are or not, and any other id as what it is.
        """
        fresh_id = self.fresh_id(now_ms)
        if isinstance(fresh_id, str):
            return Submitted(_NO_IDS, 0, fresh_id)
        is_fresh = producer_id == NO_PRODUCER_ID
        if is_leased(producer_id) or (is_fresh and lease_partitions is not None):
            return self._lease(fresh_id, producer_id, producer_epoch, lease_partitions or (), now_ms)
        request = InitProducer(fresh_id, producer_id, producer_epoch)
        return _widened(self._log.submit(self.identities.decide(request), now_ms))

    def retire(self, producer_id: int, now_ms: int) -> None:
        """A transactional id had it, and has used up its epochs: nobody resumes it by its number."""
        self._log.submit(self.identities.seal(producer_id), now_ms)

    def expire_leases(self, now_ms: int) -> StateLog | None:
        """Log which leases are over by now; give the log if it must be synced before :meth:`judge_by_log`.

        And let a little of what those that are over have left go: it takes memory, also where nobody wants room.
        """
        self._bound.forget_some()
        self.judge_by_log()
        decision = self.leases.decide_expiry(self._monotonic_ms())
        if decision.records and not self._is_pending:  # else a slow disk would always be one expiry behind
            submitted = self._log.submit(decision, now_ms)
            if submitted.error_message is not None:
                return None  # not logged, so not over: the next round tries again
            self._durable_from = submitted.sync_offset
            self.judge_by_log()
        self._observer.leases_looked_at(self.leases, self.live_leases)
        return self._log if self._is_pending else None

    @property
    def _is_pending(self) -> bool:
        """An expiry is in the log, and not durable yet."""
        return self.live_leases.expired_below < self.leases.expired_below

    @property
    def free(self) -> int:
        """(Producer, partition) pairs that can be remembered besides, and for which no lease has room kept."""
        return self._bound.free

    @property
    def reserved(self) -> int:
        """(Producer, partition) pairs that leases have room kept for, and have not used."""
        return self._bound.reserved

    def lease_remaining_ms(self, producer_id: int) -> int:
        """How long a leased id lives, at least; 0 when its lease is over, also while that is not durable yet."""
        is_live = self.leases.expired_below <= producer_id < self.live_leases.granted_below
        remaining_ms = self.leases.remaining_ms(producer_id, self._monotonic_ms()) if is_live else 0
        self._observer.lease_told_of(producer_id, remaining_ms)
        return remaining_ms

    def judge_by_log(self) -> None:
        """Let the partitions judge by the newest expiry, if it is durable by now."""
        if self._is_pending and self._log.partition.high_watermark >= self._durable_from:
            self.live_leases.expired_below = self.leases.expired_below
            self._bound.release_below(self.leases.expired_below)
            self._observer.leases_over(self.leases.expired_below)

    def _lease(
        self,
        fresh_id: int,
        producer_id: int,
        producer_epoch: int,
        partitions: tuple[TopicPartition, ...],
        now_ms: int,
    ) -> Submitted[Response]:
        monotonic_ms = self._monotonic_ms()
        self._bound.make_room(max(1, len(partitions)))
        had_room = self.leases.room_of(producer_id)
        is_short = had_room > 0 and len(partitions) > self._bound.kept_for(producer_id)
        request = LeaseRequest(
            partitions,
            fresh_id if fresh_id == NO_PRODUCER_ID else LEASED_IDS_FROM + fresh_id,
            self._random_bits() % STARTING_EPOCHS,
            self._bound.free,
            self._bound.known_max,
            self._lease_ms,
            producer_id,
            producer_epoch,
            frozenset(self._written_by(producer_id) if is_short else ()),
        )
        issued_below = self.leases.granted_below
        decision: Decision[Lease | Refused] = self.leases.decide(request, monotonic_ms)
        submitted = self._log.submit(decision, now_ms)
        granted = decision.response
        if isinstance(granted, Refused):
            self.leases_refused += granted.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif submitted.error_message is None and granted.producer_id == request.fresh_producer_id:
            self.leases.see(monotonic_ms)
            self.live_leases.granted_below = self.leases.granted_below
            self._bound.reserve(granted.producer_id, self.leases.room_of(granted.producer_id))
        elif submitted.error_message is None and is_short and (lacks := request.further_room(had_room)):
            self._bound.reserve(granted.producer_id, lacks)
        if submitted.error_message is None:
            self._observer.lease_asked(producer_id, partitions, granted, issued_below)
        return _widened(submitted)

    def fresh_id(self, now_ms: int) -> int | str:
        """An id that nobody has had, ``NO_PRODUCER_ID`` if none is at hand; or why there can be none."""
        if self._free_ids.first_id == self._free_ids.end_id:
            floor_id = self.identities.next_id
            block = self._id_blocks.take(floor_id)
            if block is None:
                self._id_blocks.claim_ahead(floor_id)
                return NO_PRODUCER_ID
            taken = self._log.submit(self.identities.take(block), now_ms)  # durable before any grant is
            if taken.error_message is not None:
                return taken.error_message
            self._free_ids = block
        fresh_id = self._free_ids.first_id
        self._free_ids = IdBlock(fresh_id + 1, self._free_ids.end_id)
        if self._free_ids.end_id - self._free_ids.first_id <= BLOCK_IDS // 2:
            self._id_blocks.claim_ahead(self.identities.next_id)
        return fresh_id


def _widened(submitted: Submitted[identity.Response] | Submitted[Lease | Refused]) -> Submitted[Response]:
    return Submitted(submitted.response, submitted.sync_offset, submitted.error_message)
