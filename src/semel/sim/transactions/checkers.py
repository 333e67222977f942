"""The invariants of transactions, by what clients and readers were told and what the server's logs say."""

from __future__ import annotations

from collections.abc import Iterable

from semel.core.transaction.states import TransactionState, may_follow
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.errors import ErrorCode
from semel.record.control import Marker, MarkerType
from semel.sim.checkers.checker import Checker
from semel.sim.transactions.anomalies import anomalies, committed_in
from semel.sim.transactions.log import OpenHere
from semel.sim.transactions.story import Offsets, Poll, Row, TransactionStory, Txn, transaction_of
from semel.sim.transactions.watcher import TransactionLogWatcher, TransactionWatcher
from semel.types import ProducerGrant, TopicPartition


class NoUncommittedRead(Checker, TransactionWatcher):
    """``no_uncommitted_read``: a reader of what is committed gets no row of a transaction that is aborted, nor of one
    that its client has not asked to commit yet.

    Judged at every poll: Jepsen's G1a, and its precommitted read.
    """

    def polled(self, story: TransactionStory, poll: Poll) -> None:
        if not poll.is_committed:
            return
        for offset, value in poll.rows:
            txn = story.txns.get(transaction_of(value))
            if txn is None or not txn.may_be_committed:
                raise self.violated(f"{poll.reader} read {value!r} at {offset} of {poll.tp}, {_told(txn)}")


def _told(txn: Txn | None) -> str:
    if txn is None:
        return "which nobody sent"
    return f"whose client has asked {txn.asked} and was told {txn.told}"


class TransactionIsAtomic(Checker, TransactionWatcher):
    """``transaction_is_atomic``: of a transaction all rows are read, on every partition, and its offsets are committed;
    or nothing of it.

    Judged at the end, when everything was read once more. What lies below the beginning of its log may have gone.
    """

    def history_ended(self, story: TransactionStory) -> None:
        read = {value for _, _, value in story.seen()}
        for txn in committed_in(story, read).values():
            missing = [row for row in _still_there(story, txn) if row.value not in read]
            if missing:
                raise self.violated(f"{txn.name} is committed, and {missing} were never read")
        for txn in _with_offsets(story, read):
            note = story.final_offsets.get(_offsets_of(txn).group_id)
            last = None if note is None else story.txns.get(note)
            if last is None or last.number < txn.number:
                raise self.violated(f"{txn.name} is committed, and its group has the offset of {note}")
        for note in story.final_offsets.values():
            last = None if note is None else story.txns.get(note)
            if last is not None and any(row.value not in read for row in _still_there(story, last)):
                raise self.violated(f"the offset of {last.name} is committed, and its rows were never read")


def _still_there(story: TransactionStory, txn: Txn) -> Iterable[Row]:
    return (
        row
        for row in txn.rows
        if row.record_offset is None or row.record_offset >= story.log_starts.get(row.tp, 0)
    )


def _with_offsets(story: TransactionStory, read: set[bytes]) -> list[Txn]:
    """Those that have committed offsets, in their order."""
    found = [txn for txn in committed_in(story, read).values() if txn.offsets is not None]
    return sorted(found, key=lambda txn: txn.number)


def _offsets_of(txn: Txn) -> Offsets:
    assert txn.offsets is not None
    return txn.offsets


class CommittedRowsStay(Checker, TransactionWatcher, TransactionLogWatcher):
    """``committed_rows_stay``: a commit that was acknowledged is durable, and is one; its rows are there once, in their
    order.

    Judged at every answer to EndTxn, by the coordinator's log; as a process comes up, by where the logs end; and at the
    end, by the rows that were read.
    """

    def transaction_ended(self, story: TransactionStory, txn: Txn) -> None:
        decided = story.log.decided.get(txn.name)
        if txn.told and (decided is None or not decided.is_commit or decided.place >= story.log.durable_end):
            raise self.violated(
                f"{txn.name} was told to be committed: {decided}, durable to {story.log.durable_end}"
            )
        if txn.told is False and decided is not None and decided.is_commit:
            raise self.violated(f"{txn.name} was told to be aborted, and is committed")

    def found_at_start(
        self, story: TransactionStory, tp: TopicPartition, durable_end: int, log_end_offset: int
    ) -> None:
        if log_end_offset < durable_end:
            raise self.violated(f"{tp} ends at {log_end_offset}, and was durable to {durable_end}")

    def history_ended(self, story: TransactionStory) -> None:
        places: dict[bytes, int] = {}
        for poll, offset, value in story.seen():
            if places.setdefault(value, offset) != offset:
                raise self.violated(f"{value!r} is at {places[value]} and {offset} of {poll.tp}")
        for txn in story.txns.values():
            if txn.told is not True:
                continue
            newest: dict[TopicPartition, int] = {}
            for row in _still_there(story, txn):
                offset = places.get(row.value, -1)
                if offset <= newest.get(row.tp, -1):
                    raise self.violated(f"{row} was read at {offset}, behind {newest.get(row.tp)}")
                newest[row.tp] = offset


class EndedByItsOwn(Checker, TransactionWatcher, TransactionLogWatcher):
    """``ended_by_its_own``: what ends a transaction is its own client's request for that end; or a newer client of its
    name, its time, or a server that may have lost rows of it, which abort it.

    No request of another transaction, however late it comes. Judged as a decision is written, by what the holder of the
    epoch has begun last and has asked for; what aborts it otherwise raises the epoch, and had time or cause. And as a
    client is told that its end is refused, though nobody came after it.
    """

    def state_written(
        self,
        story: TransactionStory,
        before: Transaction | None,
        after: Transaction,
        txn: Txn | None,
        now_ms: int,
    ) -> None:
        if before is None or not after.state.is_prepared:
            return
        if after.state is TransactionState.PREPARE_COMMIT:
            if txn is None or txn.asked is not True:
                raise self.violated(f"{_shown(after)} is committed, {_told(txn)}")
            return
        if txn is not None and txn.asked is False:
            return
        if before.state is not TransactionState.ONGOING:
            raise self.violated(f"{_shown(after)} has nothing to abort, {_told(txn)}")
        if after.producer_epoch == before.producer_epoch:
            raise self.violated(f"{_shown(after)} is aborted as by its client, {_told(txn)}")
        waited_ms = now_ms - (now_ms if txn is None else txn.began_ms)
        has_lost = story.lost_ms >= (now_ms if txn is None else txn.began_ms)
        others_came = story.is_repeated or story.inits.get(after.transactional_id, 0) > 1
        if not others_came and not has_lost and waited_ms < after.timeout_ms:
            raise self.violated(f"{_shown(after)} is aborted after {waited_ms} ms, and nobody else came")

    def end_refused(self, story: TransactionStory, txn: Txn, code: ErrorCode) -> None:
        raise self.violated(f"{txn.name} cannot be ended: {code.name}, {_told(txn)}")


def _shown(transaction: Transaction) -> str:
    return (
        f"{transaction.transactional_id} ({transaction.producer_id}/{transaction.producer_epoch}, "
        f"{transaction.state.title})"
    )


class EpochRisesWithTheEnd(Checker, TransactionLogWatcher):
    """``epoch_rises_with_the_end``: each grant has a higher epoch than all before, each transaction of the newer
    protocol one of its own, and an end that a client did not ask for one that nobody was granted.

    Judged as a record of the coordinator is written.
    """

    def state_written(
        self,
        story: TransactionStory,
        before: Transaction | None,
        after: Transaction,
        txn: Txn | None,
        now_ms: int,
    ) -> None:
        if before is None or after.producer_id != before.producer_id:
            return
        is_end = after.state.is_prepared
        was_asked_for = txn is not None and txn.asked is not None
        stays = (is_end and after.client_version < EPOCH_BUMP_FROM and was_asked_for) or (
            not is_end and after.state is not TransactionState.EMPTY
        )
        least = before.producer_epoch + (not stays)
        if not least <= after.producer_epoch <= before.producer_epoch + 1:
            raise self.violated(f"{_shown(after)} follows {_shown(before)}")


class MarkersFollowTheDecision(Checker, TransactionLogWatcher):
    """``markers_follow_the_decision``: no marker is written before the decision that it tells is durable, and nothing
    is complete before all its partitions have theirs, durably; each state follows one that it may follow.

    What is open in a partition though no transaction has it is aborted after a start: that is the one marker without a
    decision. Judged as a marker, or a record of the coordinator, is written.
    """

    def marker_written(self, story: TransactionStory, tp: TopicPartition, marker: Marker) -> None:
        known = story.log.by_producer(marker.producer_id)
        is_commit = marker.marker_type is MarkerType.COMMIT
        unended = story.log.of(tp).is_open.get(marker.producer_id)
        if known is not None and known.state.is_prepared and tp in known.partitions:
            fits = is_commit is known.is_commit and marker.producer_epoch == known.producer_epoch
            fits = fits and marker.producer_id == known.producer_id
            fits = fits and (unended is None or not _comes_next(known, unended))
            if not fits or not story.log.is_durable(known.transactional_id):
                raise self.violated(
                    f"{marker} is written to {tp} for {_shown(known)}, where {unended} is open"
                )
            return
        is_its_own = (
            known is not None
            and unended is not None
            and known.grant == ProducerGrant(unended.producer_id, unended.producer_epoch)
        )
        if is_commit or unended is None or is_its_own:
            raise self.violated(f"{marker} is written to {tp}, where {unended} is open, of {known}")

    def state_written(
        self,
        story: TransactionStory,
        before: Transaction | None,
        after: Transaction,
        txn: Txn | None,
        now_ms: int,
    ) -> None:
        if not may_follow(None if before is None else before.state, after.state):
            raise self.violated(f"{_shown(after)} follows {before}")
        if before is None or not before.state.is_prepared:
            return
        for tp in sorted(before.partitions):
            unended = story.log.of(tp).unended_of(before.producer_id)
            if unended is not None and not _comes_next(before, unended):
                raise self.violated(f"{_shown(after)}, and {tp} has {unended}")


def _comes_next(prepared: Transaction, unended: OpenHere) -> bool:
    """Whether it is of the transaction that its client could begin only once the other one had ended."""
    grant = ProducerGrant(unended.producer_id, unended.producer_epoch)
    return prepared.client_version >= EPOCH_BUMP_FROM and prepared.grant == grant


class DecidedTransactionEnds(Checker, TransactionWatcher):
    """``decided_transaction_ends``: once faults have ended, every transaction is decided within its time, and complete;
    nothing is open in any partition, and readers of what is committed come to the end.

    Judged at the end, from when nothing of before can still be under way.
    """

    def transactions_waited(self, waited_ms: int, patience_ms: int, what_is_open: str | None) -> None:
        if what_is_open is not None and waited_ms > patience_ms:
            raise self.violated(f"after {waited_ms} ms: {what_is_open}")


class LastStableOffsetMovesOn(Checker, TransactionWatcher):
    """``last_stable_offset_moves_on``: no reader is told of a last stable offset behind the beginning of a transaction
    that is open, or whose marker a power cut may take; nor of one behind the high watermark, nor of one that goes back.

    Where a log begins later, it begins to be stable there. Judged at every poll.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, TopicPartition], int] = {}

    def polled(self, story: TransactionStory, poll: Poll) -> None:
        stable, key = poll.last_stable_offset, (poll.reader, poll.tp)
        if stable > poll.high_watermark:
            raise self.violated(f"{poll.tp} is stable to {stable}, and readable to {poll.high_watermark}")
        unstable = story.log.of(poll.tp).first_unstable
        if unstable is not None and stable > max(unstable.first_offset, poll.log_start_offset):
            raise self.violated(f"{poll.tp} is stable to {stable}, and {unstable} is not over")
        if poll.is_committed and poll.next_offset > max(stable, poll.from_offset):
            raise self.violated(f"{poll.reader} read {poll.tp} to {poll.next_offset}, stable to {stable}")
        if stable < self._told.get(key, 0):
            raise self.violated(f"{poll.tp} is stable to {stable}, and was to {self._told[key]}")
        self._told[key] = stable


class OffsetsFollowTheTransaction(Checker, TransactionWatcher):
    """``offsets_follow_the_transaction``: a group's stable offset is never one of a transaction that is aborted, or not
    asked to be committed yet, and never an older one than that of a transaction that was told to be committed.

    Judged at every answer to OffsetFetch.
    """

    def __init__(self) -> None:
        self._ended: dict[str, list[Txn]] = {}  # by group

    def transaction_ended(self, story: TransactionStory, txn: Txn) -> None:
        if txn.told and txn.offsets is not None:
            self._ended.setdefault(txn.offsets.group_id, []).append(txn)

    def position_told(
        self, story: TransactionStory, group_id: str, offset: int, note: str | None, sent_ms: int
    ) -> None:
        txn = None if note is None else story.txns.get(note)
        if note is not None and (
            txn is None or not txn.may_be_committed or _offsets_of(txn).end_offset != offset
        ):
            raise self.violated(f"{group_id} is at {offset} by {note}, {_told(txn)}")
        before = [one for one in self._ended.get(group_id, ()) if one.told_ms < sent_ms]
        newest = max(before, key=lambda one: one.number, default=None)
        if newest is not None and (txn is None or txn.number < newest.number):
            raise self.violated(f"{group_id} is at {offset} by {note}, behind {newest.name}")


class InputCountsOnce(Checker, TransactionWatcher):
    """``input_counts_once``: the transactions of a name that are committed have read all of their input, each
    offset once.

    A client goes on from the offsets that are committed, so that each of them begins where the one before it
    ended; only where the log begins later it may begin there. Judged at the end.
    """

    def history_ended(self, story: TransactionStory) -> None:
        ends: dict[str, tuple[int, str]] = {}
        read = {value for _, _, value in story.seen()}
        last = {story.txns[note] for note in story.final_offsets.values() if note in story.txns}
        known = {*_with_offsets(story, read), *last}
        for txn in sorted(known, key=lambda txn: txn.number):
            offsets = _offsets_of(txn)
            end_offset, name = ends.get(offsets.group_id, (0, "the beginning"))
            if offsets.start_offset < end_offset:
                raise self.violated(f"{txn.name} read {offsets} once more, behind {name}")
            began_later = offsets.start_offset <= story.log_starts.get(offsets.tp, 0)
            may_be_unseen = any(
                one.asked is True and one.told is None and not any(_still_there(story, one))
                for one in story.txns.values()
                if one.transactional_id == txn.transactional_id and one.number < txn.number
            )
            if offsets.start_offset > end_offset and not began_later and not may_be_unseen:
                raise self.violated(f"{txn.name} read {offsets}, and {name} ended at {end_offset}")
            ends[offsets.group_id] = offsets.end_offset, txn.name


class HistoriesHaveNoAnomaly(Checker, TransactionWatcher):
    """``histories_have_no_anomaly``: the histories of sends and polls have none of Jepsen's anomalies.

    What each of them is, :mod:`semel.sim.transactions.anomalies` says. Judged at the end.
    """

    def history_ended(self, story: TransactionStory) -> None:
        found = next(anomalies(story), None)
        if found is not None:
            raise self.violated(f"{found.kind}: {found.evidence}")
