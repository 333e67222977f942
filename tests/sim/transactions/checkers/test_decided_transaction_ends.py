from __future__ import annotations

from tests.sim.conftest import Breaks

from semel.sim.transactions.checkers import DecidedTransactionEnds


def test_in_time() -> None:
    DecidedTransactionEnds().transactions_waited(1_000, 1_000, "x is Ongoing")
    DecidedTransactionEnds().transactions_waited(9_000, 1_000, None)


def test_not_later(breaks: Breaks) -> None:
    with breaks():
        DecidedTransactionEnds().transactions_waited(1_001, 1_000, "x is Ongoing")
