from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import GROUP, OTHER, TP, begun, committed, read, story

from semel.sim.transactions.checkers import TransactionIsAtomic
from semel.sim.transactions.story import TransactionStory


def judge(of: TransactionStory) -> None:
    TransactionIsAtomic().history_ended(of)


def test_all_of_it_is_read() -> None:
    of = story()
    txn = committed(of, (TP, 0), (OTHER, 0))
    read(of, txn.rows[0])
    read(of, txn.rows[1], tp=OTHER)
    judge(of)


def test_a_row_of_another_partition_is_missing(breaks: Breaks) -> None:
    of = story()
    txn = begun(of, (TP, 0), (OTHER, 0), asked=True)  # nobody was told, but somebody has read of it
    read(of, txn.rows[0])
    with breaks():
        judge(of)


def test_what_was_trimmed_may_be_missing() -> None:
    of = story()
    txn = committed(of, (TP, 0), (OTHER, 0))
    read(of, txn.rows[0])
    of.log_starts[OTHER] = 1
    judge(of)


def test_of_what_nobody_has_committed_nothing_need_be_read() -> None:
    of = story()
    begun(of, (TP, 0), asked=True)
    begun(of, (TP, 1), asked=False, told=False)
    judge(of)


def test_its_offset_is_committed_too(breaks: Breaks) -> None:
    of = story()
    older = committed(of, (TP, 0), offsets=(0, 1))
    newer = committed(of, (TP, 1), epoch=1, offsets=(1, 2))
    read(of, *older.rows, *newer.rows)
    of.final_offsets[GROUP] = newer.name
    judge(of)
    of.final_offsets[GROUP] = older.name
    with breaks():
        judge(of)


def test_nor_is_its_offset_alone(breaks: Breaks) -> None:
    of = story()
    txn = begun(of, (TP, 0), asked=True, offsets=(0, 1))
    of.final_offsets[GROUP] = txn.name
    with breaks():
        judge(of)
