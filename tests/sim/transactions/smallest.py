"""The smallest history of transactions: ``x``, which reads ``t-0`` and writes to it and ``t-1``."""

from __future__ import annotations

from typing import Final

from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.sim.transactions.story import (
    Offsets,
    Poll,
    Protocol,
    Row,
    TransactionPlan,
    TransactionStory,
    Txn,
)
from semel.types import ProducerGrant, TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP: Final = "g"
PRODUCER_ID: Final = 7
TIMEOUT_MS: Final = 1_000
PLAN: Final = TransactionPlan("x", GROUP, TP, TIMEOUT_MS, (Protocol.NEWER,), rows_max=3, commits=1.0)


def story() -> TransactionStory:
    return TransactionStory((PLAN,), {"t": 2}, {}, committed_readers=1)


def begun(
    of: TransactionStory,
    *places: tuple[TopicPartition, int],
    epoch: int = 0,
    asked: bool | None = None,
    told: bool | None = None,
    offsets: tuple[int, int] | None = None,
    began_ms: int = 0,
) -> Txn:
    """A transaction that has a row at each of these places."""
    txn = of.begin("x", "x.1", ProducerGrant(PRODUCER_ID, epoch), began_ms)
    for tp, offset in places:
        txn.send(tp).record_offset = offset
    txn.asked, txn.told = asked, told
    if offsets is not None:
        txn.offsets = Offsets(GROUP, TP, *offsets)
    return txn


def committed(of: TransactionStory, *places: tuple[TopicPartition, int], **more: object) -> Txn:
    """And its client was told that it is committed."""
    return begun(of, *places, asked=True, told=True, **more)  # type: ignore[arg-type]


def read(
    of: TransactionStory,
    *rows: Row,
    tp: TopicPartition = TP,
    from_offset: int = 0,
    to: int | None = None,
    reader: str = "r",
    is_committed: bool = True,
    stable: int | None = None,
    readable: int = 100,
) -> Poll:
    """A reader was given these, in the order of their offsets."""
    placed = tuple((row.record_offset or 0, row.value) for row in rows)
    next_offset = max((offset + 1 for offset, _ in placed), default=from_offset) if to is None else to
    stable = next_offset if stable is None else stable
    poll = Poll(reader, tp, is_committed, from_offset, next_offset, placed, readable, stable, 0)
    of.polls.append(poll)
    of.steady_readers.add(reader)
    return poll


def state(
    state: TransactionState, *partitions: TopicPartition, epoch: int = 0, is_newer: bool = True
) -> Transaction:
    """What the coordinator writes of ``x``."""
    version = EPOCH_BUMP_FROM if is_newer else 0
    return Transaction(
        "x", PRODUCER_ID, epoch, TIMEOUT_MS, state, frozenset(partitions), client_version=version
    )


def wrote(of: TransactionStory, transaction: Transaction, *, durable: bool = True) -> None:
    """It is the newest that the coordinator has written."""
    place = max(of.log.places.values(), default=-1) + 1
    of.log.states[transaction.transactional_id] = transaction
    of.log.places[transaction.transactional_id] = place
    of.log.durable_end = place + durable
