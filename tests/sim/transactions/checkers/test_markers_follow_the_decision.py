from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import OTHER, PRODUCER_ID, TP, state, story, wrote

from semel.core.transaction.states import TransactionState as State
from semel.core.transaction.transaction import Transaction
from semel.record.control import Marker, MarkerType
from semel.sim.transactions.checkers import MarkersFollowTheDecision
from semel.sim.transactions.story import TransactionStory

PREPARED = state(State.PREPARE_COMMIT, TP, epoch=1)
COMPLETE = state(State.COMPLETE_COMMIT, epoch=1)


def opened(epoch: int = 0) -> TransactionStory:
    """Something is open in the one partition."""
    of = story()
    of.log.of(TP).wrote(PRODUCER_ID, epoch, 0)
    return of


def mark(of: TransactionStory, kind: MarkerType = MarkerType.COMMIT, epoch: int = 1) -> None:
    MarkersFollowTheDecision().marker_written(of, TP, Marker(kind, 1, 0, PRODUCER_ID, epoch, 0))


def follow(of: TransactionStory, before: Transaction | None, after: Transaction) -> None:
    MarkersFollowTheDecision().state_written(of, before, after, None, 0)


def test_a_marker_tells_what_was_decided_durably() -> None:
    of = opened()
    wrote(of, PREPARED)
    mark(of)


def test_not_before(breaks: Breaks) -> None:
    of = opened()
    wrote(of, PREPARED, durable=False)
    with breaks():
        mark(of)


@pytest.mark.parametrize(("kind", "epoch"), [(MarkerType.ABORT, 1), (MarkerType.COMMIT, 0)])
def test_and_nothing_else(breaks: Breaks, kind: MarkerType, epoch: int) -> None:
    of = opened()
    wrote(of, PREPARED)
    with breaks():
        mark(of, kind, epoch)


def test_nothing_that_comes_next(breaks: Breaks) -> None:
    of = opened(epoch=1)
    wrote(of, PREPARED)
    with breaks():
        mark(of)


def test_what_nobody_has_is_aborted() -> None:
    of = opened()
    wrote(of, state(State.EMPTY, epoch=4))
    mark(of, MarkerType.ABORT, epoch=0)


@pytest.mark.parametrize("known", [State.ONGOING, State.EMPTY])
def test_what_somebody_has_is_not(breaks: Breaks, known: State) -> None:
    of = opened(epoch=1)
    wrote(of, state(known, epoch=1))
    with breaks():
        mark(of, MarkerType.ABORT)


def test_it_is_complete_when_all_have_theirs(breaks: Breaks) -> None:
    of = opened()
    with breaks():
        follow(of, PREPARED, COMPLETE)
    of.log.of(TP).marked(PRODUCER_ID, 1)
    with breaks():
        follow(of, PREPARED, COMPLETE)
    of.log.of(TP).synced(2)
    follow(of, PREPARED, COMPLETE)


def test_what_comes_next_may_have_begun() -> None:
    follow(opened(epoch=1), PREPARED, COMPLETE)


def test_each_state_follows_one_that_it_may_follow(breaks: Breaks) -> None:
    of = story()
    follow(of, None, state(State.EMPTY))
    follow(of, state(State.EMPTY), state(State.ONGOING, OTHER))
    for before, after in ((PREPARED, state(State.PREPARE_ABORT, epoch=2)), (PREPARED, state(State.ONGOING))):
        with breaks():
            follow(of, before, after)
