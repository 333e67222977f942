"""The coordinator of transactions: its core beside its log, the markers that end one, and whose time is over.

Invariants
- No commit is decided before all its rows are durable, which are acknowledged before they are; no marker is written
  before the decision is durable; none is complete before all its markers are.
- What a power cut, or a sync that failed, may have taken rows of is aborted; a kill alone aborts nothing.
- What is decided ends on every partition that is still there: now, when the disk has room again, or after the next
  start (:meth:`TransactionCoordinator.recover`).
- EndTxn is answered when its transaction has ended everywhere: who commits then finds the rows, and who goes on is not
  told to wait. (Kafka answers once it is decided, and has clients ask again until it has ended.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from semel.core.decision import Decision
from semel.core.transaction.requests import (
    AddPartitions,
    End,
    EndAnswer,
    Ended,
    Ending,
    Init,
    Refused,
    Stray,
)
from semel.core.transaction.transaction import Transaction
from semel.core.transaction.transactions import Transactions
from semel.errors import ErrorCode
from semel.record.control import encode_abort_marker, encode_commit_marker
from semel.server.coordinator import NOT_STORED, Coordinator
from semel.server.operation import Happened, Steps, Synced, is_durable
from semel.server.storage.outcome import AppendOutcome, from_coordinator
from semel.server.storage.partition import Partition
from semel.server.storage.state_log import StateLog, Submitted
from semel.types import NO_PRODUCER_ID, ProducerGrant, TopicPartition

log = logging.getLogger(__name__)

COORDINATOR_EPOCH: Final = 0  # one server coordinates everything, for ever
_NOT_STORED: Final = Refused(NOT_STORED, "the log of transactions cannot be written")
_LOADING: Final = Refused(
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "what was under way is not known yet: the log cannot be written"
)
_ASK_AGAIN: Final = Refused(
    ErrorCode.CONCURRENT_TRANSACTIONS, "it has changed while its rows were synced: ask again"
)
_WAIT_MAX_MS: Final = 30_000  # for another request to end the same transaction
_TRY_AGAIN_MS: Final = 1_000  # to write markers that the disk has refused
_SYNC_WITHIN_MS: Final = 1_000  # what nobody waits for, so that it can be read


class _Ended(NamedTuple):
    """What a request waits for that finds a transaction being ended."""

    transactional_id: str


class Rows(Protocol):
    """Where the rows of transactions are."""

    def find(self, name: TopicPartition) -> Partition | None: ...

    @property
    def may_have_lost(self) -> bool:
        """Whether some of what was written before the start, and not synced, may be gone."""

    def note_recovered(self) -> None:
        """What was lost is known; from now on it is asked what is lost since. ``OSError``: not yet."""


class Ids(Protocol):
    """Where producer ids come from."""

    def fresh_id(self, now_ms: int) -> int | str:
        """One that nobody has had, ``NO_PRODUCER_ID`` if none is at hand; or why there can be none."""

    def retire(self, producer_id: int, now_ms: int) -> None:
        """Nobody is granted it any more."""


class TransactionCoordinator(Coordinator):
    """One server's."""

    def __init__(
        self,
        transactions: Transactions,
        state_log: StateLog,
        ids: Ids,
        id_log: StateLog,
        rows: Rows,
        monotonic_ms: Callable[[], int],
        readable: Callable[[TopicPartition], None],
        storage_failed: Callable[[Partition, str | None], None],
        ended: Callable[[TopicPartition, int, bool], None],
        judged: Callable[[AppendOutcome], None] = lambda outcome: None,
    ) -> None:
        """``id_log`` has the ids that were claimed; ``ended`` hears of each marker: the partition, the producer id, and
        whether it commits; ``judged`` of what the partition made of it.
        """
        super().__init__(state_log, monotonic_ms, storage_failed)
        self.transactions: Final = transactions
        self._ids = ids
        self._id_log = id_log
        self._rows = rows
        self._find = rows.find
        self._readable = readable
        self._marked = ended
        self._judged = judged
        self._ending: set[str] = set()
        self._unfinished: set[str] = set()  # whose markers could not be written
        self._strays: list[Stray] = []  # likewise
        # Where what was open at the start is, as long as the log has not taken what comes of it.
        self._found: Iterable[Partition] | None = None
        self._begin: Callable[[Steps[None]], None] = lambda steps: steps.close()

    def carry_out_by(self, begin: Callable[[Steps[None]], None]) -> None:
        """``begin`` carries out what no request asks for."""
        self._begin = begin

    def recover(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Before the first request: what was open when the server ended goes on, and what was decided ends.

        Where the disk refuses what is to be written of it, everybody waits until it takes it (:meth:`tick`).
        """
        self._recover(partitions, now_ms)
        self._tell_deadline()

    def _recover(self, partitions: Iterable[Partition], now_ms: int) -> None:
        found = [
            (partition.name, each.producer_id, each.producer_epoch)
            for partition in partitions
            for each in partition.open_transactions()
        ]
        submitted = self.log.submit(self.transactions.reconcile(found, now_ms), now_ms)
        error = submitted.error_message or self._abort_what_lost_rows(now_ms)
        self._found = None if error is None else partitions
        if error is not None:
            self._storage_failed(self.log.partition, error)
            return
        if submitted.response:
            self._begin(self._abort_strays(submitted.response, now_ms))
        for transaction in self.transactions.prepared():
            self._begin(self._finish(transaction.transactional_id, now_ms))

    def _abort_what_lost_rows(self, now_ms: int) -> str | None:
        """Why it is not done. Only when it is may rows be acknowledged that are not durable."""
        if self._rows.may_have_lost:
            aborted = self.transactions.abort_what_is_open(now_ms)
            submitted = self.log.submit(aborted, now_ms)
            if submitted.error_message is not None:
                return submitted.error_message
            if aborted.records:
                log.warning("%d open transactions may have lost rows, and are aborted", len(aborted.records))
        try:
            self._rows.note_recovered()
        except OSError as error:
            return f"the boot of the machine cannot be noted: {error}"
        return None

    def _do_due(self, time_of_day_ms: int) -> None:
        """Abort what takes too long, and go on with what could not be ended."""
        if self._found is not None:
            self._recover(self._found, time_of_day_ms)
        if self._found is not None:
            return
        for name in self.transactions.overdue(self._monotonic_ms()):
            submitted = self._abort(name, time_of_day_ms)
            if submitted.error_message is not None:
                self.transactions.put_off(name)
            elif submitted.response is not None:
                log.info("transaction %r took longer than its time-out, and is aborted", name)
        unfinished, self._unfinished = self._unfinished, set()
        for name in sorted(unfinished):
            self._begin(self._finish(name, time_of_day_ms))
        if self._strays:
            strays, self._strays = self._strays, []
            self._begin(self._abort_strays(strays, time_of_day_ms))
        if self.log.partition.needs_sync:
            self._begin(self._sync())

    # -- requests; None where the log has not taken what the answer rests on

    async def init(
        self, name: str, timeout_ms: int, producer_id: int, producer_epoch: int, now_ms: int
    ) -> ProducerGrant | Refused:
        """Grant the right to write under ``name``, once what it has under way is aborted everywhere."""
        asked = producer_id, producer_epoch
        while True:
            if self._found is not None:
                return _LOADING
            fresh_id = await self._fresh_id_for(name, now_ms)
            if isinstance(fresh_id, Refused):
                return fresh_id
            before = self.transactions.get(name)
            if before is not None and before.state.is_prepared and not await self._finished(name, now_ms):
                return Refused(
                    ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction ends once the disk has room"
                )
            request = Init(name, timeout_ms, fresh_id, *asked)
            answer = await self._durably(self.log.submit(self.transactions.init(request, now_ms), now_ms))
            match answer:
                case None:
                    return _NOT_STORED
                case Ending(transaction):
                    if producer_id != NO_PRODUCER_ID:
                        asked = transaction.producer_id, transaction.producer_epoch
                    if not await self._finished(name, now_ms):
                        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "it ends once the disk has room")
                case ProducerGrant():
                    if before is not None and before.producer_id != answer.producer_id:
                        self._ids.retire(before.producer_id, now_ms)
                    return answer
                case Refused():
                    return answer

    async def add(self, request: AddPartitions, now_ms: int) -> ErrorCode:
        """Register partitions, durably."""
        if self._found is not None:
            return _LOADING.error_code
        code = await self._durably(self._submit_add(request, now_ms))
        return NOT_STORED if code is None else code

    def write(self, request: AddPartitions, now_ms: int) -> ErrorCode:
        """Whether a producer of KIP-890 may write to these now. It need not be durable yet that it may, but before the
        write is acknowledged: :meth:`is_registered`.
        """
        if self._found is not None:
            return _LOADING.error_code
        submitted = self._submit_add(request, now_ms)
        return submitted.response if submitted.error_message is None else NOT_STORED

    async def is_registered(self) -> bool:
        """Wait until all that was registered so far is durable; whether it is."""
        return await self._durably(Submitted(True, self.log.partition.log_end_offset, None)) is True

    def refusal_of_write(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """The same for one whose partitions were added before."""
        if self._found is not None:
            return _LOADING.error_code
        return self.transactions.refusal_of_write(transactional_id, producer_id, producer_epoch, partition)

    async def end(
        self,
        name: str,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        is_commit: bool,
        client_version: int,
    ) -> ProducerGrant | Refused:
        """End it everywhere; what its client writes with from now on."""
        if self._found is not None:
            return _LOADING
        fresh_id = NO_PRODUCER_ID
        if name in self.transactions:
            found = await self._fresh_id_for(name, now_ms)
            if isinstance(found, Refused):
                return found
            fresh_id = found
        request = End(name, producer_id, producer_epoch, is_commit, client_version, fresh_id)
        decision = await self._decided(request, now_ms)
        answer = await self._durably(self.log.submit(decision, now_ms))
        match answer:
            case None:
                return _NOT_STORED
            case Ending(transaction):
                # It is decided: where the disk refuses a marker now, it is written as soon as there is room.
                await self._finished(name, now_ms)
                if transaction.grant.producer_id != transaction.producer_id:
                    self._ids.retire(transaction.producer_id, now_ms)
                return transaction.grant
            case Ended(grant):
                return grant
            case Refused():
                return answer

    # -- within

    async def _decided(self, request: End, now_ms: int) -> Decision[EndAnswer]:
        """A commit only once all its rows are durable. What has lost some is aborted, and its client told so."""
        while True:
            decision = self.transactions.end(request, now_ms)
            known = self.transactions.get(request.transactional_id)
            if known is None or not decision.records or not request.is_commit:
                return decision
            behind = self._not_durable(known)
            if not behind:
                return decision
            await Synced(behind)
            if self.transactions.get(known.transactional_id) is not known:
                # Whoever ended it meanwhile may have begun the next one, which this end was not asked for.
                return Decision((), _ASK_AGAIN)
            lost = [each for each in self._not_durable(known) if not each.is_online]
            if not lost:
                continue
            for partition in lost:
                self._storage_failed(partition, partition.offline_reason)
            if self._abort(known.transactional_id, now_ms).error_message is not None:
                return Decision((), _NOT_STORED)
            places = ", ".join(str(each.name) for each in lost)
            log.warning("transaction %r has lost rows of %s, and is aborted", known.transactional_id, places)

    def _not_durable(self, transaction: Transaction) -> list[Partition]:
        """Those of its partitions whose last row is not. Where a topic was deleted, its rows are nobody's any more."""
        found = (self._find(name) for name in sorted(transaction.partitions))
        return [
            each
            for each in found
            if each is not None
            and each.high_watermark < each.end_of_open_transaction(transaction.producer_id)
        ]

    def _abort(self, name: str, now_ms: int) -> Submitted[Ending | None]:
        """What is open under ``name``, whoever has it; or the log does not take that, which is told."""
        submitted = self.log.submit(self.transactions.abort(name, now_ms), now_ms)
        if submitted.error_message is not None:
            self._storage_failed(self.log.partition, submitted.error_message)
        elif submitted.response is not None:
            self._begin(self._finish(name, now_ms))
        return submitted

    async def _fresh_id_for(self, name: str, now_ms: int) -> int | Refused:
        """A producer id, if the name needs another one; the same can never be given out again.

        The grant goes into another log than the claim of the id: were it durable first, a power cut could take the
        claim alone, and the id would be granted to two names.
        """
        if not self.transactions.needs_fresh_id(name):
            return NO_PRODUCER_ID
        fresh_id = self._ids.fresh_id(now_ms)
        if isinstance(fresh_id, str):
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, fresh_id)
        claims = self._id_log.partition
        return fresh_id if await is_durable(claims, claims.log_end_offset) else _NOT_STORED

    def _submit_add(self, request: AddPartitions, now_ms: int) -> Submitted[ErrorCode]:
        submitted = self.log.submit(self.transactions.add(request, now_ms), now_ms)
        if submitted.error_message is not None:
            self._storage_failed(self.log.partition, submitted.error_message)
        self._tell_deadline()
        return submitted

    async def _sync(self) -> None:
        await Synced((self.log.partition,))
        self._readable(self.log.partition.name)

    async def _finished(self, name: str, now_ms: int) -> bool:
        """End what is prepared under ``name``, with whoever does so already; whether it has ended."""
        if name not in self._ending:
            await self._finish(name, now_ms)
        while name in self._ending:
            if not await Happened((_Ended(name),), _WAIT_MAX_MS):
                return False
        known = self.transactions.get(name)
        return known is None or not known.state.is_prepared

    async def _finish(self, name: str, now_ms: int) -> None:
        """Write its markers, and once all are durable that it is complete."""
        transaction = self.transactions.get(name)
        if transaction is None or not transaction.state.is_prepared or name in self._ending:
            return
        self._ending.add(name)
        has_ended = await is_durable(self.log.partition, self.log.partition.log_end_offset)
        has_ended = has_ended and await self._is_marked(transaction, now_ms)
        if has_ended:
            submitted = self.log.submit(self.transactions.complete(name, now_ms), now_ms)
            has_ended = submitted.error_message is None
        self._ending.discard(name)
        if not has_ended:
            self._unfinished.add(name)
        self._wake([_Ended(name)])
        self._tell_deadline()

    async def _is_marked(self, transaction: Transaction, now_ms: int) -> bool:
        """Whether each of its partitions has the marker, durably."""
        encode = encode_commit_marker if transaction.is_commit else encode_abort_marker
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
        waits_for: list[tuple[Partition, int]] = []
        is_marked = True
        for name in sorted(transaction.partitions):
            partition = self._find(name)
            if partition is None:
                continue  # deleted, with all that was written there
            if not partition.is_online:  # of one that could not be opened nobody knows what is open there
                is_marked = False
                continue
            if not partition.has_open_transaction(producer_id):
                waits_for.append((partition, partition.log_end_offset))  # marked before, or never written
                continue
            marker = encode(producer_id, producer_epoch, COORDINATOR_EPOCH, now_ms)
            outcome = self._append(partition, marker, now_ms)
            if outcome.error_code is not ErrorCode.NONE:
                self._storage_failed(partition, outcome.error_message)
                is_marked = False
                continue
            waits_for.append((partition, outcome.sync_offset))
            self._marked(name, producer_id, transaction.is_commit)
        await Synced([partition for partition, _ in waits_for])
        for partition, sync_offset in waits_for:
            self._readable(partition.name)
            if partition.high_watermark < sync_offset and self._find(partition.name) is partition:
                is_marked = False
        return is_marked

    async def _abort_strays(self, strays: Sequence[Stray], now_ms: int) -> None:
        """Nobody has them under way: readers would wait for them for ever."""
        marked = []
        for stray in strays:
            partition = self._find(stray.partition)
            if partition is None or not _is_open(partition, stray):
                continue  # deleted, or ended by whoever came first
            marker = encode_abort_marker(stray.producer_id, stray.producer_epoch, COORDINATOR_EPOCH, now_ms)
            outcome = self._append(partition, marker, now_ms)
            is_marked = outcome.error_code is ErrorCode.NONE
            log.warning(
                "%s: a transaction of producer id %d, epoch %d, that nobody has under way %s",
                stray.partition,
                stray.producer_id,
                stray.producer_epoch,
                "was aborted" if is_marked else f"could not be aborted yet: {outcome.error_message}",
            )
            if is_marked:
                self._marked(stray.partition, stray.producer_id, False)
                marked.append(partition)
            elif partition.is_online:
                self._strays.append(stray)
        await Synced(marked)
        for partition in marked:
            self._readable(partition.name)
        self._tell_deadline()

    def _append(self, partition: Partition, marker: bytearray, now_ms: int) -> AppendOutcome:
        (outcome,) = partition.append_all([from_coordinator(marker)], now_ms)
        self._judged(outcome)
        return outcome

    def _next_due_ms(self, now_ms: int) -> int | None:
        due_ms = self.transactions.next_deadline_ms(now_ms)
        if self._unfinished or self._strays or self._found is not None:
            due_ms = _earlier(due_ms, now_ms + _TRY_AGAIN_MS)
        if self.log.partition.needs_sync:
            due_ms = _earlier(due_ms, now_ms + _SYNC_WITHIN_MS)
        return due_ms


def _is_open(partition: Partition, stray: Stray) -> bool:
    writes = (stray.producer_id, stray.producer_epoch)
    return any((each.producer_id, each.producer_epoch) == writes for each in partition.open_transactions())


def _earlier(one_ms: int | None, other_ms: int) -> int:
    return other_ms if one_ms is None else min(one_ms, other_ms)
