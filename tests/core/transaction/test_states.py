from __future__ import annotations

from semel.core.transaction.states import VALID_PREVIOUS, TransactionState, may_follow


def test_every_state_has_its_predecessors_and_kafkas_number_and_name() -> None:
    assert set(VALID_PREVIOUS) == set(TransactionState)
    assert {state.title: state.value for state in TransactionState} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
    }


def test_what_is_decided_is_never_decided_otherwise() -> None:
    commit, abort = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
    assert not may_follow(commit, abort)
    assert not may_follow(abort, commit)
    assert [state for state in TransactionState if may_follow(commit, state)] == [
        TransactionState.COMPLETE_COMMIT
    ]
    assert [state for state in TransactionState if may_follow(abort, state)] == [
        TransactionState.COMPLETE_ABORT
    ]


def test_a_transaction_begins_empty() -> None:
    assert [state for state in TransactionState if may_follow(None, state)] == [TransactionState.EMPTY]
