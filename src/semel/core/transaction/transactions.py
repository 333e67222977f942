"""The coordinator's core: every transactional id, and the transaction that it has under way. Log-backed.

Invariants
- Of one producer id every epoch is granted to one caller only, and none after a higher one: of two copies of one saved
  identity the first to ask goes on, and the other is ``PRODUCER_FENCED``. (Kafka answers the last question once more,
  which of two copies only one may hear.)
- A transaction is ended by its own epoch, or by a higher one. Clients of KIP-890 have another epoch for each, so that
  a late EndTxn or Produce of one never meets the next.
- What is prepared can only complete, and completes once every partition has its marker durably.
- A partition may be written before the record that it belongs to the transaction is durable, and is not acknowledged
  before: what is open in a partition says so itself after a crash (:meth:`Transactions.reconcile`).
- Rows are acknowledged before they are durable, and decided to be committed only when they are. What may have lost some
  of them is aborted at the start (:meth:`Transactions.abort_what_is_open`), at an epoch that its client has not.

Follows Kafka's ``TransactionCoordinator`` and ``TransactionMetadata`` (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from semel.core.deadlines import Deadlines
from semel.core.decision import Decision, StateRecord
from semel.core.transaction.records import decode_key, decode_value, encode_key, encode_value
from semel.core.transaction.requests import (
    AddPartitions,
    End,
    EndAnswer,
    Ended,
    Ending,
    Init,
    InitAnswer,
    Refused,
    Stray,
)
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_ID, NO_TIMESTAMP, PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition

NAME_BYTES_MAX: Final = 1024
NAMES_MAX: Final = 100_000
PARTITIONS_MAX: Final = 10_000  # of one transaction: its record has them all
TIMEOUT_MAX_MS: Final = 15 * 60 * 1000  # Kafka's transaction.max.timeout.ms
EXPIRATION_MS: Final = 7 * 24 * 60 * 60 * 1000  # Kafka's transactional.id.expiration.ms
_EXPIRED_AT_ONCE: Final = 1_000

_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
NOT_ENDED: Final = Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction has not ended everywhere")
NO_NAME: Final = "a transactional id has at least one byte"
NO_FRESH_ID: Final = Refused(
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no fresh producer id is at hand: ask again"
)


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """By Kafka's names: ``transaction.max.timeout.ms`` and ``transactional.id.expiration.ms``."""

    timeout_max_ms: int = TIMEOUT_MAX_MS
    expiration_ms: int = EXPIRATION_MS


class Transactions:
    """All that one server coordinates."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings: Final = settings or TransactionSettings()
        self._known: dict[str, Transaction] = {}
        self._names: dict[int, str] = {}  # by the producer id that each has now
        self._begun: dict[str, None] = {}  # under way, and not timed yet
        self._deadlines: Deadlines[str] = Deadlines()

    # -- what is known

    def __iter__(self) -> Iterator[Transaction]:
        """Every transactional id's, by name."""
        return iter(sorted(self._known.values(), key=lambda each: each.transactional_id))

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._known

    def get(self, transactional_id: str) -> Transaction | None:
        return self._known.get(transactional_id)

    def needs_fresh_id(self, transactional_id: str) -> bool:
        """Whether whoever asks for it, or ends its transaction, goes on with another producer id."""
        known = self._known.get(transactional_id)
        return known is None or known.is_exhausted

    def name_of(self, producer_id: int) -> str | None:
        """Whose it is now."""
        return self._names.get(producer_id)

    def count_by_state(self) -> dict[TransactionState, int]:
        """How many transactional ids are in each; of every state."""
        counts = Counter(each.state for each in self._known.values())
        return {state: counts[state] for state in TransactionState}

    def is_under_way(self, producer_id: int, partition: TopicPartition) -> bool:
        """Whether only the coordinator may end what the producer has open there."""
        name = self._names.get(producer_id)
        known = None if name is None else self._known[name]
        return known is not None and not known.state.is_at_rest and partition in known.partitions

    def prepared(self) -> list[Transaction]:
        """Those that wait for markers."""
        return [each for each in self if each.state.is_prepared]

    # -- decisions

    def init(self, request: Init, now_ms: int) -> Decision[InitAnswer]:
        """A grant; or first the abort of what is under way, whose epoch nobody is granted: then ask again."""
        name, fresh_id = request.transactional_id, request.fresh_producer_id
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            reason = f"a transactional id has 1 to {NAME_BYTES_MAX} bytes"
            return _refuse(ErrorCode.INVALID_REQUEST, reason)
        if not 0 < request.timeout_ms <= self.settings.timeout_max_ms:
            reason = (
                f"transaction.timeout.ms is {request.timeout_ms}; the server's transaction.max.timeout.ms is "
                f"{self.settings.timeout_max_ms}"
            )
            return _refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT, reason)
        known = self._known.get(name)
        if known is None:
            if request.producer_id != NO_PRODUCER_ID:
                return _refuse(
                    ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"there is no transactional id {name!r}"
                )
            if len(self._known) >= NAMES_MAX:
                reason = f"there are {NAMES_MAX} transactional ids already"
                return _refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED, reason)
            if fresh_id == NO_PRODUCER_ID:
                return Decision((), NO_FRESH_ID)
            return _grant(Transaction(name, fresh_id, 0, request.timeout_ms, updated_ms=now_ms))
        asked = (request.producer_id, request.producer_epoch)
        if request.producer_id != NO_PRODUCER_ID and asked != (known.producer_id, known.producer_epoch):
            return _refuse(
                ErrorCode.PRODUCER_FENCED,
                f"transactional id {name!r} was granted to another copy: "
                f"producer id {known.producer_id}, epoch {known.producer_epoch}",
            )
        if known.state.is_prepared:
            return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS, "its last transaction has not ended everywhere")
        if known.state is TransactionState.ONGOING:
            return self._fence(known, now_ms)
        at_rest = replace(
            known,
            state=TransactionState.EMPTY,
            timeout_ms=request.timeout_ms,
            updated_ms=now_ms,
            started_ms=NO_TIMESTAMP,
            previous_producer_id=NO_PRODUCER_ID,
        )
        if not known.is_exhausted:
            return _grant(replace(at_rest, producer_epoch=known.producer_epoch + 1))
        if fresh_id == NO_PRODUCER_ID:
            return Decision((), NO_FRESH_ID)
        return _grant(
            replace(at_rest, producer_id=fresh_id, producer_epoch=0, previous_producer_id=known.producer_id)
        )

    def add(self, request: AddPartitions, now_ms: int) -> Decision[ErrorCode]:
        """Register partitions; nothing is written for those that are known."""
        known = self._of(request.transactional_id, request.producer_id, request.producer_epoch)
        if isinstance(known, Refused):
            return Decision((), known.error_code)
        if known.state.is_prepared:
            return Decision((), ErrorCode.CONCURRENT_TRANSACTIONS)
        is_ongoing = known.state is TransactionState.ONGOING
        if not request.partitions or (is_ongoing and request.partitions <= known.partitions):
            return Decision((), ErrorCode.NONE)
        partitions = known.partitions | request.partitions
        if len(partitions) > PARTITIONS_MAX:
            return Decision((), ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return Decision(
            (_record(self._ongoing(known, partitions, request.client_version, now_ms)),), ErrorCode.NONE
        )

    def refusal_of_write(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Whether a producer whose partitions are added beforehand may write there now (KIP-890, part 1)."""
        known = self._of(transactional_id, producer_id, producer_epoch)
        if isinstance(known, Refused):
            return known.error_code
        if known.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        is_open = known.state is TransactionState.ONGOING and partition in known.partitions
        return ErrorCode.NONE if is_open else ErrorCode.INVALID_TXN_STATE

    def end(self, request: End, now_ms: int) -> Decision[EndAnswer]:
        """Decide the transaction, or say how it was decided."""
        if not request.transactional_id:
            return _refuse(ErrorCode.INVALID_REQUEST, NO_NAME)
        known = self._known.get(request.transactional_id)
        if known is None:
            return _refuse(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"there is no transactional id {request.transactional_id!r}",
            )
        if request.client_version < EPOCH_BUMP_FROM:
            return self._end_at_its_epoch(known, request, now_ms)
        return self._end_and_raise(known, request, now_ms)

    def complete(self, transactional_id: str, now_ms: int) -> Decision[Transaction]:
        """All its partitions have their markers."""
        known = self._known[transactional_id]
        grant = known.grant
        is_rotated = grant.producer_id != known.producer_id
        done = replace(
            known,
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            previous_producer_id=known.producer_id if is_rotated else known.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=_COMPLETE[known.state],
            partitions=frozenset(),
            updated_ms=now_ms,
        )
        return Decision((_record(done),), done)

    def abort(self, transactional_id: str, now_ms: int) -> Decision[Ending | None]:
        """What takes longer than its client said, or cannot be committed any more, is aborted, and its client fenced;
        but one of KIP-890 that hears of it and asks for the abort itself has asked for just that, and goes on with the
        raised epoch.
        """
        known = self._known.get(transactional_id)
        if known is None or known.state is not TransactionState.ONGOING:
            return Decision((), None)
        aborted = self._aborted(known, now_ms)
        return Decision((_record(aborted),), Ending(aborted))

    def forget_what_is_over(self, now_ms: int) -> Decision[bool]:
        """Ids that rest for too long; some, and whether there may be more."""
        over = list(
            islice(
                (
                    each
                    for each in self
                    if each.state.is_at_rest and each.updated_ms + self.settings.expiration_ms <= now_ms
                ),
                _EXPIRED_AT_ONCE,
            )
        )
        records = tuple(StateRecord(encode_key(each.transactional_id), None) for each in over)
        return Decision(records, len(over) == _EXPIRED_AT_ONCE)

    def take_over(self, grants: Iterable[tuple[str, ProducerGrant, int]]) -> Decision[None]:
        """Identities from elsewhere, with the time of their last grant; never at a lower epoch than is known."""
        records = []
        for name, grant, granted_ms in grants:
            known = self._known.get(name)
            if known is None or known.producer_id != grant.producer_id:
                taken = Transaction(
                    name, grant.producer_id, grant.producer_epoch, TIMEOUT_MAX_MS, updated_ms=granted_ms
                )
                records.append(_record(taken))
        return Decision(tuple(records), None)

    def reconcile(
        self, open_in_partitions: Iterable[tuple[TopicPartition, int, int]], now_ms: int
    ) -> Decision[list[Stray]]:
        """After a start: what is open in partitions (partition, producer id, epoch) belongs to what is under way, or is
        a stray.

        Or it belongs to the transaction behind one that is prepared: neither that the one is complete need have been
        durable when the next began, nor that this did. Its epoch is the one that was granted with the end, so that all
        partitions had their markers by then.
        """
        strays: list[Stray] = []
        found: dict[str, set[TopicPartition]] = {}
        ended: dict[str, Transaction] = {}
        records: list[StateRecord] = []
        granted_next = {
            each.next_producer_id: each.transactional_id
            for each in self.prepared()
            if each.next_producer_id != NO_PRODUCER_ID
        }
        for partition, producer_id, producer_epoch in open_in_partitions:
            name = self._names.get(producer_id, granted_next.get(producer_id))
            known = None if name is None else self._known[name]
            if known is not None and _has_gone_on(known, ProducerGrant(producer_id, producer_epoch)):
                if known.transactional_id not in ended:
                    completed = self.complete(known.transactional_id, now_ms)
                    records += completed.records
                    ended[known.transactional_id] = completed.response
                found.setdefault(known.transactional_id, set()).add(partition)
                continue
            if known is not None and partition in known.partitions:
                continue
            if known is None or known.state.is_prepared or known.producer_epoch != producer_epoch:
                strays.append(Stray(partition, producer_id, producer_epoch))
            else:
                found.setdefault(known.transactional_id, set()).add(partition)
        for name, partitions in sorted(found.items()):
            known = ended.get(name, self._known[name])
            all_of_it = known.partitions | partitions
            records.append(_record(self._ongoing(known, all_of_it, known.client_version, now_ms)))
        return Decision(tuple(records), strays)

    def abort_what_is_open(self, now_ms: int) -> Decision[None]:
        """After a start: rows that were acknowledged may be gone, and their client could go on to commit the others."""
        is_open = (each for each in self if each.state is TransactionState.ONGOING)
        return Decision(tuple(_record(self._aborted(each, now_ms)) for each in is_open), None)

    # -- time

    def next_deadline_ms(self, monotonic_ms: int) -> int | None:
        """When the next transaction is overdue. Those that began since the last call count from now."""
        begun, self._begun = self._begun, {}
        for name in begun:
            known = self._known.get(name)
            if known is not None and known.state is TransactionState.ONGOING:
                self._deadlines.set(name, monotonic_ms + known.timeout_ms)
        return self._deadlines.next_ms()

    def overdue(self, monotonic_ms: int) -> list[str]:
        """Those whose time is over, each told once."""
        return list(self._deadlines.due(monotonic_ms))

    def put_off(self, transactional_id: str) -> None:
        """One that was told as overdue could not be aborted: its time begins once more."""
        self._begun[transactional_id] = None

    # -- the log

    def apply(self, record: StateRecord) -> bool:
        name = decode_key(record.key)
        if name is None:
            return False
        before = self._known.pop(name, None)
        if before is not None:
            self._names.pop(before.producer_id, None)
        if record.value is None:
            self._deadlines.cancel(name)
            self._begun.pop(name, None)
            return True
        now = decode_value(name, record.value)
        self._known[name] = now
        self._names[now.producer_id] = name
        was_ongoing = before is not None and before.state is TransactionState.ONGOING
        if now.state is TransactionState.ONGOING:
            if not was_ongoing:
                self._begun[name] = None
        elif was_ongoing:
            self._deadlines.cancel(name)
            self._begun.pop(name, None)
        return True

    def live_records(self) -> Iterable[StateRecord]:
        return map(_record, self)

    # -- within

    def _of(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Transaction | Refused:
        """The one that its holder asks for."""
        if not transactional_id:
            return Refused(ErrorCode.INVALID_REQUEST, NO_NAME)
        known = self._known.get(transactional_id)
        if known is not None and _is_too_soon(known, ProducerGrant(producer_id, producer_epoch)):
            return NOT_ENDED
        if known is None or known.producer_id != producer_id:
            reason = f"transactional id {transactional_id!r} has another producer id than {producer_id}"
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)
        if known.producer_epoch != producer_epoch:
            reason = f"transactional id {transactional_id!r} is at epoch {known.producer_epoch}, not {producer_epoch}"
            return Refused(ErrorCode.PRODUCER_FENCED, reason)
        return known

    def _ongoing(
        self, known: Transaction, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        is_ongoing = known.state is TransactionState.ONGOING
        return replace(
            known,
            state=TransactionState.ONGOING,
            partitions=partitions,
            started_ms=known.started_ms if is_ongoing else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def _fence(self, known: Transaction, now_ms: int) -> Decision[InitAnswer]:
        fenced = self._fenced(known, now_ms)
        return Decision((_record(fenced),), Ending(fenced))

    def _fenced(self, known: Transaction, now_ms: int) -> Transaction:
        """Its abort at a raised epoch, which is there: the last one is granted to nobody.

        It counts as one without a client: whoever held the epoch before did not ask for it, and is fenced.
        """
        return replace(
            known,
            state=TransactionState.PREPARE_ABORT,
            producer_epoch=known.producer_epoch + 1,
            updated_ms=now_ms,
            client_version=0,
        )

    def _aborted(self, known: Transaction, now_ms: int) -> Transaction:
        fenced = self._fenced(known, now_ms)
        return fenced if known.is_exhausted else replace(fenced, client_version=known.client_version)

    def _end_at_its_epoch(self, known: Transaction, request: End, now_ms: int) -> Decision[EndAnswer]:
        """By clients that know nothing of KIP-890: who asks again cannot be told from who asks late."""
        if known.producer_id != request.producer_id:
            return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "of another producer id")
        if known.producer_epoch != request.producer_epoch:
            return _refuse(ErrorCode.PRODUCER_FENCED, f"it is at epoch {known.producer_epoch}")
        wanted = TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT
        if known.state is TransactionState.ONGOING:
            prepared = replace(known, state=wanted, updated_ms=now_ms, client_version=request.client_version)
            return Decision((_record(prepared),), Ending(prepared))
        if known.state is wanted:
            return Decision((), Ending(known))
        if known.state is _COMPLETE[wanted]:
            return Decision((), Ended(known.grant))
        return _refuse_end(known, request)

    def _end_and_raise(self, known: Transaction, request: End, now_ms: int) -> Decision[EndAnswer]:
        """The epoch rises with the end, so that who asks again is at the one before.

        ====================  =============  ==================  ==============
        asks, at epoch        not ended      ended so            ended otherwise
        ====================  =============  ==================  ==============
        its own: commit       it ends        INVALID_TXN_STATE   INVALID_TXN_STATE
        its own: abort        it ends        it ends, empty      it ends, empty
        the one before        PRODUCER_FENCED  the grant, again  INVALID_TXN_STATE
        ====================  =============  ==================  ==============

        At its own epoch nothing can be ended while what was ended before still lacks markers.
        """
        if _is_too_soon(known, ProducerGrant(request.producer_id, request.producer_epoch)):
            return Decision((), NOT_ENDED)
        wanted = TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT
        is_rotated = (
            known.previous_producer_id == request.producer_id
            and request.producer_epoch == PRODUCER_EPOCH_MAX - 1
            and known.producer_epoch == 0
        )
        if known.producer_id != request.producer_id and not is_rotated:
            return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "of another producer id")
        is_raised = is_rotated or known.producer_epoch == request.producer_epoch + 1
        if is_raised and known.client_version >= EPOCH_BUMP_FROM:  # else somebody else raised it
            if known.state is wanted:
                return Decision((), Ending(known))
            if known.state is _COMPLETE[wanted]:
                return Decision((), Ended(known.grant))
            if known.state.is_decided:
                return _refuse_end(known, request)
        if known.producer_epoch != request.producer_epoch:
            return _refuse(ErrorCode.PRODUCER_FENCED, f"it is at epoch {known.producer_epoch}")
        if known.state is not TransactionState.ONGOING and request.is_commit:
            return _refuse_end(known, request)
        if known.is_exhausted and request.fresh_producer_id == NO_PRODUCER_ID:
            return Decision((), NO_FRESH_ID)
        prepared = replace(
            known,
            state=wanted,
            producer_epoch=known.producer_epoch + 1,
            next_producer_id=request.fresh_producer_id if known.is_exhausted else NO_PRODUCER_ID,
            started_ms=known.started_ms if known.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=request.client_version,
        )
        return Decision((_record(prepared),), Ending(prepared))


def _is_too_soon(known: Transaction, grant: ProducerGrant) -> bool:
    """Whether who asks was told of an end whose markers are still to be written, be it with another producer id."""
    return known.state.is_prepared and known.grant == grant


def _has_gone_on(known: Transaction, grant: ProducerGrant) -> bool:
    """Whether who writes under ``grant`` was told that what is prepared has ended: only so it got that epoch."""
    was_told = known.state.is_prepared and known.client_version >= EPOCH_BUMP_FROM
    return was_told and known.grant == grant


def _refuse_end(known: Transaction, request: End) -> Decision[EndAnswer]:
    wanted = "commit" if request.is_commit else "abort"
    return _refuse(ErrorCode.INVALID_TXN_STATE, f"a {wanted} of a transaction that is {known.state.title}")


def _grant(transaction: Transaction) -> Decision[InitAnswer]:
    return Decision((_record(transaction),), transaction.grant)


def _refuse(error_code: ErrorCode, reason: str) -> Decision[Refused]:  # of any question
    return Decision((), Refused(error_code, reason))


def _record(transaction: Transaction) -> StateRecord:
    return StateRecord(encode_key(transaction.transactional_id), encode_value(transaction))
