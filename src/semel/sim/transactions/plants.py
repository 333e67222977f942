"""Bugs planted in transactions: each leaves out what one of Kafka's rules, or a restart, asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from semel.core.decision import Decision, StateRecord
from semel.core.group.offsets import GroupRecords
from semel.core.log.transactions import OpenTransactions
from semel.core.log.watermarks import Watermarks
from semel.core.producer_state.entry import NO_TRANSACTION
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.core.transaction import transactions as core
from semel.core.transaction.requests import End, Ending, Init
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import Transaction
from semel.core.transaction.transactions import Transactions
from semel.errors import ErrorCode
from semel.server import durability, transaction_coordinator
from semel.server.coordinator import Coordinator
from semel.server.handlers import produce
from semel.server.storage import opening, snapshots
from semel.server.storage.outcome import Slice
from semel.server.storage.reading import Reading
from semel.server.storage.state_log import Submitted
from semel.server.storage.storage import Storage
from semel.server.storage.trimming import Trimming
from semel.server.storage.txn_index import TxnIndex
from semel.server.transaction_coordinator import TransactionCoordinator
from semel.sim.plants.planting import Patches, plant
from semel.sim.transactions.drawing import seed_has_transactions
from semel.types import NO_PRODUCER_ID

UNCOMMITTED, ATOMIC, STAY = "no_uncommitted_read", "transaction_is_atomic", "committed_rows_stay"
ITS_OWN, EPOCH, MARKERS = "ended_by_its_own", "epoch_rises_with_the_end", "markers_follow_the_decision"
ENDS, STABLE, OFFSETS = (
    "decided_transaction_ends",
    "last_stable_offset_moves_on",
    "offsets_follow_the_transaction",
)
INPUT, ANOMALY, GRANTED = "input_counts_once", "histories_have_no_anomaly", "granted_once"

transaction_plant = partial(plant, may_show=seed_has_transactions)


# -- what is durable, and when ------------------------------------------------------------------------------


@transaction_plant("markers are written before the decision is durable", "KAFKA-14417", MARKERS, STAY)
def transaction_marked_before_decision(patch: Patches) -> None:
    async def is_durable(log: Any, offset: int) -> bool:
        return True

    patch.set(transaction_coordinator, "is_durable", is_durable)


@transaction_plant("a transaction is complete before its markers are durable", "KAFKA-17507", MARKERS)
def transaction_complete_before_markers(patch: Patches) -> None:
    async def is_marked(coordinator: TransactionCoordinator, transaction: Transaction, now_ms: int) -> bool:
        steps = original(coordinator, transaction, now_ms)
        try:
            steps.send(None)
        except StopIteration as ended:
            return bool(ended.value)
        steps.close()
        return True

    original = patch.set(TransactionCoordinator, "_is_marked", is_marked)


@transaction_plant("a commit is answered before it is durable", "KAFKA-16541", STAY)
def transaction_end_before_sync(patch: Patches) -> None:
    async def durably(coordinator: Coordinator, submitted: Submitted[Any]) -> Any:
        if not isinstance(submitted.response, Ending):
            return await original(coordinator, submitted)
        return submitted.response if submitted.error_message is None else None

    async def finished(coordinator: TransactionCoordinator, name: str, now_ms: int) -> bool:
        coordinator._begin(coordinator._finish(name, now_ms))
        return True

    original = patch.set(Coordinator, "_durably", durably)
    patch.set(TransactionCoordinator, "_finished", finished)


@transaction_plant("a producer id is granted before the claim of it is durable", "here", GRANTED, MARKERS)
def transaction_id_before_its_claim(patch: Patches) -> None:
    async def fresh_id_for(coordinator: TransactionCoordinator, name: str, now_ms: int) -> Any:
        known = coordinator.transactions.get(name)
        if known is not None and not known.is_exhausted:
            return NO_PRODUCER_ID
        fresh_id = coordinator._ids.fresh_id(now_ms)
        return transaction_coordinator._NOT_STORED if isinstance(fresh_id, str) else fresh_id

    patch.set(TransactionCoordinator, "_fresh_id_for", fresh_id_for)


@transaction_plant("a commit is decided before its rows are durable", "here", ATOMIC, STAY)
def transaction_commit_before_its_rows(patch: Patches) -> None:
    patch.set(TransactionCoordinator, "_not_durable", lambda coordinator, transaction: [])


@transaction_plant("what a power cut took acknowledged rows of goes on", "here", ATOMIC, STAY)
def transaction_goes_on_without_lost_rows(patch: Patches) -> None:
    patch.set(Transactions, "abort_what_is_open", lambda known, now_ms: Decision((), None))


@transaction_plant("every start aborts what is open, though nothing was lost", "here", ITS_OWN)
def transaction_aborted_by_any_start(patch: Patches) -> None:
    patch.set(Storage, "may_have_lost", property(lambda storage: True))


# -- after a start ------------------------------------------------------------------------------------------


@transaction_plant("a restart forgets what was decided and is not complete", "KAFKA-9777", ENDS)
def transaction_restart_forgets_prepared(patch: Patches) -> None:
    patch.set(Transactions, "prepared", lambda known: [])


@transaction_plant(
    "nobody looks at a start what is open in the partitions", "rp6018", ATOMIC, ITS_OWN, ENDS, STAY
)
def transaction_reconcile_left_out(patch: Patches) -> None:
    def reconcile(known: Transactions, found: Iterable[Any], now_ms: int) -> Decision[list[Any]]:
        return Decision((), [])

    patch.set(Transactions, "reconcile", reconcile)


@transaction_plant(
    "what a client had gone on to, behind an end that was not complete durably, ends with that",
    "here",
    MARKERS,
    UNCOMMITTED,
)
def transaction_next_ends_with_the_last(patch: Patches) -> None:
    _sync_nothing_that_nobody_waits_for(patch)
    # No bug either: rows of the next transaction may outlive the end of this one.
    patch.set(durability, "LATER_MS", 0)
    patch.set(core, "_has_gone_on", lambda known, grant: False)


def _sync_nothing_that_nobody_waits_for(patch: Patches) -> None:
    """That is no bug: it makes what a power cut can take of the coordinator's log more, and bugs there plainer."""
    patch.set(transaction_coordinator, "_SYNC_WITHIN_MS", 10**9)


@transaction_plant("a restart aborts what was decided to be committed", "here", MARKERS, ATOMIC)
def transaction_restart_aborts_commits(patch: Patches) -> None:
    recovering: set[tuple[int, int]] = set()

    def recover(coordinator: TransactionCoordinator, partitions: Iterable[Any], now_ms: int) -> None:
        recovering.update(
            (one.producer_id, one.producer_epoch) for one in coordinator.transactions.prepared()
        )
        original_recover(coordinator, partitions, now_ms)

    async def is_marked(coordinator: TransactionCoordinator, transaction: Transaction, now_ms: int) -> bool:
        if (transaction.producer_id, transaction.producer_epoch) in recovering:
            transaction = replace(transaction, state=TransactionState.PREPARE_ABORT)
        return bool(await original(coordinator, transaction, now_ms))

    original_recover = patch.set(TransactionCoordinator, "recover", recover)
    original = patch.set(TransactionCoordinator, "_is_marked", is_marked)


# -- who may end what ---------------------------------------------------------------------------------------


@transaction_plant("a late EndTxn ends the transaction that follows", "KAFKA-17754", ITS_OWN)
def transaction_late_end_is_taken(patch: Patches) -> None:
    def end_and_raise(known_ones: Transactions, known: Transaction, request: End, now_ms: int) -> Any:
        is_late = request.producer_epoch == known.producer_epoch - 1
        if is_late and known.state is TransactionState.ONGOING:
            request = replace(request, producer_epoch=known.producer_epoch)
        return original(known_ones, known, request, now_ms)

    original = patch.set(Transactions, "_end_and_raise", end_and_raise)


@transaction_plant("the epoch of an EndTxn of the older protocol is not looked at", "KIP-98", ITS_OWN)
def transaction_end_of_any_epoch(patch: Patches) -> None:
    def end_at_its_epoch(known_ones: Transactions, known: Transaction, request: End, now_ms: int) -> Any:
        return original(known_ones, known, replace(request, producer_epoch=known.producer_epoch), now_ms)

    original = patch.set(Transactions, "_end_at_its_epoch", end_at_its_epoch)


@transaction_plant("an end does not raise the epoch", "KIP-890", EPOCH)
def transaction_end_keeps_the_epoch(patch: Patches) -> None:
    def end_and_raise(known_ones: Transactions, known: Transaction, request: End, now_ms: int) -> Any:
        decision = original(known_ones, known, request, now_ms)
        if not decision.records:
            return decision
        prepared = replace(decision.response.transaction, producer_epoch=known.producer_epoch)
        return Decision((core._record(prepared),), Ending(prepared))

    original = patch.set(Transactions, "_end_and_raise", end_and_raise)


@transaction_plant(
    "what aborts a transaction from outside does not raise its epoch", "KAFKA-20785", ITS_OWN, EPOCH
)
def transaction_fence_keeps_the_epoch(patch: Patches) -> None:
    def fenced(known_ones: Transactions, known: Transaction, now_ms: int) -> Transaction:
        found: Transaction = original(known_ones, known, now_ms)
        return replace(found, producer_epoch=known.producer_epoch)

    original = patch.set(Transactions, "_fenced", fenced)


@transaction_plant(
    "what is decided, and has not ended everywhere, is decided once more", "here", MARKERS, ITS_OWN
)
def transaction_decided_twice(patch: Patches) -> None:
    def end_and_raise(known_ones: Transactions, known: Transaction, request: End, now_ms: int) -> Any:
        if known.state.is_prepared and known.producer_epoch == request.producer_epoch:
            known = replace(known, state=TransactionState.ONGOING)
        return original(known_ones, known, request, now_ms)

    original = patch.set(Transactions, "_end_and_raise", end_and_raise)


@transaction_plant(
    "a client of the epoch before may still register partitions",
    "KAFKA-14402",
    UNCOMMITTED,
    MARKERS,
    ITS_OWN,
    ENDS,
)
def transaction_zombie_adds_partitions(patch: Patches) -> None:
    def of(known_ones: Transactions, transactional_id: str, producer_id: int, producer_epoch: int) -> Any:
        known = known_ones.get(transactional_id)
        if known is not None and known.producer_epoch == producer_epoch + 1:
            producer_epoch += 1
        return original(known_ones, transactional_id, producer_id, producer_epoch)

    original = patch.set(Transactions, "_of", of)


@transaction_plant(
    "batches enter whose partition is not in the transaction", "KAFKA-14402", ITS_OWN, MARKERS, ENDS, ATOMIC
)
def transaction_rows_nobody_vouches_for(patch: Patches) -> None:
    def refusal(*asked: Any) -> None:
        return None

    patch.set(produce, "refusal_of_write", refusal)


@transaction_plant("a new client does not abort what is under way", "KIP-98", MARKERS)
def transaction_init_aborts_nothing(patch: Patches) -> None:
    def init(known_ones: Transactions, request: Init, now_ms: int) -> Any:
        known = known_ones.get(request.transactional_id)
        if known is None or known.state is not TransactionState.ONGOING:
            return original(known_ones, request, now_ms)
        at_rest = replace(known, state=TransactionState.EMPTY, producer_epoch=known.producer_epoch + 1)
        return core._grant(replace(at_rest, partitions=frozenset()))

    original = patch.set(Transactions, "init", init)


@transaction_plant("what takes too long goes on", "KIP-98", ENDS)
def transaction_time_never_ends(patch: Patches) -> None:
    patch.set(Transactions, "overdue", lambda known_ones, monotonic_ms: [])


@transaction_plant("an abort leaves one of several partitions out", "KAFKA-16352", MARKERS)
def transaction_abort_forgets_a_partition(patch: Patches) -> None:
    async def is_marked(coordinator: TransactionCoordinator, transaction: Transaction, now_ms: int) -> bool:
        if not transaction.is_commit and len(transaction.partitions) > 1:
            transaction = replace(transaction, partitions=frozenset(sorted(transaction.partitions)[1:]))
        return bool(await original(coordinator, transaction, now_ms))

    original = patch.set(TransactionCoordinator, "_is_marked", is_marked)


# -- what readers see ---------------------------------------------------------------------------------------


@transaction_plant("all that is readable is stable", "KIP-98", STABLE, UNCOMMITTED)
def transaction_stable_is_readable(patch: Patches) -> None:
    patch.set(Watermarks, "last_stable_offset", property(lambda marks: marks.high_watermark))


@transaction_plant("a transaction is over for readers before its marker is durable", "rp5090", STABLE)
def transaction_over_before_sync(patch: Patches) -> None:
    def first_unstable(opened: OpenTransactions, high_watermark: int) -> int:
        return min(high_watermark, next(iter(opened._first_offsets.values()), high_watermark))

    patch.set(OpenTransactions, "first_unstable_offset", first_unstable)


@transaction_plant("the last stable offset is one too high", "rp3036", STABLE)
def transaction_stable_off_by_one(patch: Patches) -> None:
    def first_unstable(opened: OpenTransactions, high_watermark: int) -> int:
        return min(high_watermark, int(original(opened, high_watermark)) + 1)

    original = patch.set(OpenTransactions, "first_unstable_offset", first_unstable)


@transaction_plant(
    "a reader is told of the aborted transactions that begin in what it gets alone", "KAFKA-9807", UNCOMMITTED
)
def transaction_aborted_from_before_untold(patch: Patches) -> None:
    def aborted_in(reading: Reading, from_offset: int, piece: Slice) -> Sequence[tuple[int, int]]:
        return [one for one in original(reading, from_offset, piece) if one[1] >= from_offset]

    original = patch.set(Reading, "aborted_in", aborted_in)


@transaction_plant("the index of aborted transactions is lost as its segment is full", "here", UNCOMMITTED)
def transaction_index_lost_at_roll(patch: Patches) -> None:
    def freezes(index: TxnIndex) -> None:
        original(index)
        index.count = 0

    original = patch.set(TxnIndex, "freeze", freezes)


@transaction_plant("the index of aborted transactions is not made anew after a crash", "here", UNCOMMITTED)
def transaction_index_not_rebuilt(patch: Patches) -> None:
    patch.set(opening, "rebuild_aborted", lambda *files, have_markers, now_ms: None)


@transaction_plant("aborted transactions are looked for in one segment", "here", UNCOMMITTED)
def transaction_index_of_one_segment(patch: Patches) -> None:
    def overlapping(index: TxnIndex, from_offset: int, end_offset: int) -> tuple[list[Any], bool]:
        found, _ = original(index, from_offset, end_offset)
        return found, True

    original = patch.set(TxnIndex, "overlapping", overlapping)


@transaction_plant(
    "a snapshot of the producers forgets what is open", "rp31483", STABLE, UNCOMMITTED, MARKERS, ENDS
)
def transaction_snapshot_forgets_open(patch: Patches) -> None:
    def closed_only(frozen: FrozenProducers) -> Any:
        entries = {
            producer_id: entry._replace(current_txn_first_offset=NO_TRANSACTION)
            for producer_id, entry in frozen
        }
        return original(ProducerState(entries, end_offset=frozen.end_offset).freeze())

    original = patch.set(snapshots, "encode_snapshot", closed_only)


@transaction_plant("a trim forgets what is open and begins before it", "rp2326", STABLE, UNCOMMITTED)
def transaction_trim_forgets_open(patch: Patches) -> None:
    async def deletes(trimming: Trimming, before_offset: int) -> ErrorCode:
        code: ErrorCode = await original(trimming, before_offset)
        opened = trimming._log.marks.transactions._first_offsets
        for producer_id in [one for one, offset in opened.items() if offset < trimming._log.log_start_offset]:
            del opened[producer_id]
        return code

    original = patch.set(Trimming, "delete_records", deletes)


# -- offsets ------------------------------------------------------------------------------------------------


@transaction_plant("an offset counts before its transaction is committed", "KIP-447", OFFSETS, INPUT)
def transaction_offsets_count_at_once(patch: Patches) -> None:
    def applies(records: GroupRecords, producer_id: int, record: StateRecord) -> bool:
        return records.apply(record)

    patch.set(GroupRecords, "apply_pending", applies)


@transaction_plant(
    "offsets of an aborted transaction count with the next one", "KAFKA-17582", OFFSETS, ENDS, INPUT
)
def transaction_offsets_outlive_an_abort(patch: Patches) -> None:
    def ends(records: GroupRecords, producer_id: int, *, is_commit: bool) -> None:
        if is_commit:
            original(records, producer_id, is_commit=is_commit)

    original = patch.set(GroupRecords, "end_pending", ends)


@transaction_plant("offsets of an aborted transaction count", "here", OFFSETS, INPUT)
def transaction_aborted_offsets_count(patch: Patches) -> None:
    def ends(records: GroupRecords, producer_id: int, *, is_commit: bool) -> None:
        original(records, producer_id, is_commit=True)

    original = patch.set(GroupRecords, "end_pending", ends)
