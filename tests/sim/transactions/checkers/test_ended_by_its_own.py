from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import TIMEOUT_MS, TP, begun, state, story

from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import Transaction
from semel.errors import ErrorCode
from semel.sim.transactions.checkers import EndedByItsOwn

ONGOING = state(TransactionState.ONGOING, TP)
COMMITS = state(TransactionState.PREPARE_COMMIT, TP, epoch=1)
ABORTS = state(TransactionState.PREPARE_ABORT, TP, epoch=1)
FENCES = state(TransactionState.PREPARE_ABORT, TP, epoch=1, is_newer=False)


def decide(
    after: Transaction,
    asked: bool | None,
    *,
    before: Transaction = ONGOING,
    now_ms: int = 0,
    inits: int = 1,
    lost_ms: int = -1,
) -> None:
    of = story()
    of.lost_ms = lost_ms
    of.inits["x"] = inits
    EndedByItsOwn().state_written(of, before, after, begun(of, (TP, 0), asked=asked), now_ms)


def test_its_client_ends_it() -> None:
    decide(COMMITS, True)
    decide(ABORTS, False)


@pytest.mark.parametrize(
    ("after", "asked"), [(COMMITS, None), (COMMITS, False), (ABORTS, None), (ABORTS, True)]
)
def test_nobody_else_does(breaks: Breaks, after: Transaction, asked: bool | None) -> None:
    with breaks():
        decide(after, asked)


def test_a_newer_client_aborts_it_or_its_time_or_a_power_cut() -> None:
    decide(FENCES, None, lost_ms=0)
    decide(FENCES, None, inits=2)
    decide(FENCES, True, inits=2)
    decide(FENCES, None, now_ms=TIMEOUT_MS)


def test_nothing_else_does(breaks: Breaks) -> None:
    with breaks():
        decide(FENCES, None, now_ms=TIMEOUT_MS - 1)


def test_and_they_raise_the_epoch(breaks: Breaks) -> None:
    with breaks():
        decide(state(TransactionState.PREPARE_ABORT, TP, is_newer=False), None, inits=2)


def test_what_is_not_open_is_not_aborted(breaks: Breaks) -> None:
    with breaks():
        decide(FENCES, None, before=state(TransactionState.EMPTY), inits=2)


def test_its_client_is_not_refused(breaks: Breaks) -> None:
    of = story()
    with breaks():
        EndedByItsOwn().end_refused(of, begun(of, (TP, 0), asked=True), ErrorCode.INVALID_TXN_STATE)
