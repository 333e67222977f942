"""What the ledger makes of what a server writes and finds."""

from __future__ import annotations

from tests.sim.transactions.smallest import PRODUCER_ID, TP, begun, state, story

from semel.core.producer_state.verdict import APPEND, Duplicate
from semel.core.transaction.records import encode_key, encode_value
from semel.core.transaction.states import TransactionState as State
from semel.core.transaction.transaction import Transaction
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.record.control import encode_commit_marker
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.sim.transactions.ledger import STATES, TransactionLedger
from semel.sim.transactions.log import Decided
from semel.sim.transactions.story import TransactionStory
from semel.sim.world.watchers import Watchers
from semel.types import TopicPartition


def append(
    ledger: TransactionLedger,
    tp: TopicPartition,
    batch: bytearray,
    offset: int,
    outcome: AppendOutcome | None = None,
) -> None:
    incoming = Incoming(memoryview(batch), [decode_header(batch)])
    ledger.appended(tp, [incoming], [outcome or AppendOutcome(ErrorCode.NONE, offset, verdict=APPEND)])


def row() -> bytearray:
    return encode_batch(
        [Record(0, 0, None, b"row")],
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def written(transaction: Transaction) -> bytearray:
    return encode_batch([Record(0, 0, encode_key("x"), encode_value(transaction))])


def beside(of: TransactionStory) -> TransactionLedger:
    return TransactionLedger(of, Watchers(), lambda: 0, lambda: -1)


def test_a_transaction_is_open_until_its_marker_is_durable() -> None:
    of = story()
    ledger, log = beside(of), of.log.of(TP)
    append(ledger, TP, row(), 4)
    append(ledger, TP, row(), 5)
    assert log.first_unstable is not None
    assert log.first_unstable.first_offset == 4
    append(ledger, TP, encode_commit_marker(PRODUCER_ID, 1, 0, 0), 6)
    assert log.first_unstable is not None
    log.synced(6)
    assert log.first_unstable is not None
    log.synced(7)
    assert log.first_unstable is None


def test_what_is_refused_or_there_already_is_not_written() -> None:
    of = story()
    ledger = beside(of)
    append(ledger, TP, row(), 0, AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR))
    append(ledger, TP, row(), 0, AppendOutcome(ErrorCode.NONE, 4, verdict=Duplicate(4)))
    assert of.log.of(TP).first_unstable is None


def test_a_decision_is_of_the_transaction_that_was_begun_last() -> None:
    of = story()
    ledger = beside(of)
    begun(of, (TP, 0))
    newest = begun(of, (TP, 1))
    append(ledger, STATES, written(state(State.ONGOING, TP)), 0)
    append(ledger, STATES, written(state(State.PREPARE_COMMIT, TP, epoch=1)), 1)
    assert of.log.decided == {newest.name: Decided(True, 1)}
    assert of.log.states["x"].state is State.PREPARE_COMMIT
    assert not of.log.is_durable("x")


def test_what_a_power_cut_has_taken_was_not_decided() -> None:
    of = story()
    ledger = beside(of)
    newest = begun(of, (TP, 0))
    append(ledger, STATES, written(state(State.ONGOING, TP)), 0)
    append(ledger, STATES, written(state(State.PREPARE_COMMIT, TP, epoch=1)), 1)
    of.log.begin_anew(2)
    assert newest.name in of.log.decided
    of.log.begin_anew(1)
    assert newest.name not in of.log.decided
    assert not of.log.states
