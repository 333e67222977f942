from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import TP, begun, state, story

from semel.core.transaction.states import TransactionState as State
from semel.core.transaction.transaction import Transaction
from semel.sim.transactions.checkers import EpochRisesWithTheEnd

ONGOING = state(State.ONGOING, TP)


def follow(after: Transaction, *, before: Transaction = ONGOING, asked: bool | None = True) -> None:
    of = story()
    EpochRisesWithTheEnd().state_written(of, before, after, begun(of, (TP, 0), asked=asked), 0)


def test_it_rises_with_an_end() -> None:
    follow(state(State.PREPARE_COMMIT, epoch=1))
    follow(state(State.COMPLETE_COMMIT, epoch=1), before=state(State.PREPARE_COMMIT, epoch=1))


@pytest.mark.parametrize("epoch", [0, 2])
def test_by_one(breaks: Breaks, epoch: int) -> None:
    with breaks():
        follow(state(State.PREPARE_COMMIT, epoch=epoch))


def test_older_clients_keep_theirs() -> None:
    follow(state(State.PREPARE_COMMIT, is_newer=False))


def test_but_nobody_ends_theirs_and_leaves_it(breaks: Breaks) -> None:
    with breaks():
        follow(state(State.PREPARE_ABORT, is_newer=False), asked=None)


def test_a_grant_has_a_higher_one(breaks: Breaks) -> None:
    at_rest = state(State.COMPLETE_ABORT)
    follow(state(State.EMPTY, epoch=1), before=at_rest)
    with breaks():
        follow(state(State.EMPTY), before=at_rest)


def test_it_never_falls(breaks: Breaks) -> None:
    with breaks():
        follow(ONGOING, before=state(State.EMPTY, epoch=1))
