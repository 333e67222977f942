from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.transaction.coordinators import A, B, Coordinator

from semel.core.transaction import transactions
from semel.core.transaction.requests import Ended, Ending, Init, Refused, Stray
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import EPOCH_BUMP_FROM, Transaction
from semel.core.transaction.transactions import Transactions, TransactionSettings
from semel.errors import ErrorCode
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant


@pytest.fixture(params=[0, EPOCH_BUMP_FROM], ids=["epoch stays", "epoch rises"])
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    return Coordinator(request.param)


def code(answer: object) -> ErrorCode:
    assert isinstance(answer, Refused), answer
    return answer.error_code


def state(coordinator: Coordinator, name: str = "t") -> TransactionState:
    known = coordinator.core.get(name)
    assert known is not None
    return known.state


# -- grants


def test_a_name_keeps_its_id_and_its_epoch_rises(coordinator: Coordinator) -> None:
    first = coordinator.init()
    assert coordinator.init() == ProducerGrant(first.producer_id, 1)
    coordinator.restart()
    assert coordinator.init() == ProducerGrant(first.producer_id, 2)
    assert coordinator.init("other").producer_id != first.producer_id


def test_of_two_copies_of_one_saved_identity_one_goes_on(coordinator: Coordinator) -> None:
    saved = coordinator.init()
    copy = (saved.producer_id, saved.producer_epoch)
    assert coordinator.ask("t", *copy) == ProducerGrant(saved.producer_id, 1)
    assert code(coordinator.ask("t", *copy)) is ErrorCode.PRODUCER_FENCED
    coordinator.restart()
    assert code(coordinator.ask("t", *copy)) is ErrorCode.PRODUCER_FENCED


def test_what_cannot_be_granted(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(coordinator.ask("")) is ErrorCode.INVALID_REQUEST
    assert code(coordinator.ask("x" * 2_000)) is ErrorCode.INVALID_REQUEST
    assert code(coordinator.ask("new", 3, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for timeout_ms in (0, -1, 900_001):
        answer = coordinator.core.init(Init("t", timeout_ms, 1), 0).response
        assert code(answer) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert code(coordinator.core.init(Init("t", 1, -1), 0).response) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.setattr(transactions, "NAMES_MAX", 1)
    coordinator.init()
    assert code(coordinator.ask("other")) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    coordinator.init()


def test_who_comes_anew_aborts_what_is_under_way_and_fences(coordinator: Coordinator) -> None:
    zombie = coordinator.init()
    coordinator.add(zombie)
    answer = coordinator.ask()
    assert isinstance(answer, Ending)
    assert (answer.transaction.state, answer.transaction.partitions) == (
        TransactionState.PREPARE_ABORT,
        frozenset({A}),
    )
    assert answer.transaction.producer_epoch == zombie.producer_epoch + 1, "its markers fence"
    assert code(coordinator.ask()) is ErrorCode.CONCURRENT_TRANSACTIONS
    for is_commit in (True, False):
        assert code(coordinator.prepare(zombie, is_commit=is_commit)) is ErrorCode.PRODUCER_FENCED
    coordinator.complete()
    for is_commit in (True, False):
        assert code(coordinator.prepare(zombie, is_commit=is_commit)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.ask() == ProducerGrant(zombie.producer_id, zombie.producer_epoch + 2)
    assert coordinator.add(zombie) is ErrorCode.PRODUCER_FENCED


def near_the_end(coordinator: Coordinator, producer_epoch: int) -> ProducerGrant:
    grant = coordinator.init()
    known = coordinator.core.get("t")
    assert known is not None
    at = dataclasses.replace(known, producer_epoch=producer_epoch)
    coordinator.carry_out(transactions._grant(at))
    return ProducerGrant(grant.producer_id, producer_epoch)


def test_used_up_epochs_end_in_a_fresh_id(coordinator: Coordinator) -> None:
    last = near_the_end(coordinator, PRODUCER_EPOCH_MAX - 1)
    fresh = coordinator.init()
    assert fresh.producer_id > last.producer_id
    assert fresh.producer_epoch == 0
    assert coordinator.core.name_of(last.producer_id) is None


def test_a_transaction_in_the_last_epoch_is_fenced_by_the_one_that_nobody_is_granted(
    coordinator: Coordinator,
) -> None:
    last = near_the_end(coordinator, PRODUCER_EPOCH_MAX - 1)
    coordinator.add(last)
    answer = coordinator.ask()
    assert isinstance(answer, Ending)
    assert answer.transaction.producer_epoch == PRODUCER_EPOCH_MAX
    coordinator.complete()
    fresh = coordinator.init()
    assert fresh.producer_id > last.producer_id
    assert fresh.producer_epoch == 0


def test_an_end_in_the_last_epoch_goes_on_with_a_fresh_id_and_may_be_asked_for_again() -> None:
    coordinator = Coordinator()
    last = near_the_end(coordinator, PRODUCER_EPOCH_MAX - 1)
    coordinator.add(last)
    answer = coordinator.prepare(last, is_commit=True)
    assert isinstance(answer, Ending)
    assert answer.transaction.producer_epoch == PRODUCER_EPOCH_MAX
    again = coordinator.prepare(last, is_commit=True)
    assert isinstance(again, Ending), "while it ends"
    granted = coordinator.complete().grant
    assert granted == answer.transaction.grant == again.transaction.grant
    assert granted.producer_epoch == 0
    coordinator.restart()
    assert coordinator.prepare(last, is_commit=True) == Ended(granted)
    assert coordinator.add(granted) is ErrorCode.NONE


# -- transactions


def test_a_transaction_from_its_first_partition_to_its_end(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    assert coordinator.add(grant, [A]) is coordinator.add(grant, [A, B]) is ErrorCode.NONE
    written = len(coordinator.log)
    assert coordinator.add(grant, [B]) is ErrorCode.NONE
    assert len(coordinator.log) == written, "nothing is new of it"
    answer = coordinator.prepare(grant, is_commit=True)
    assert isinstance(answer, Ending)
    assert answer.transaction.partitions == {A, B}
    assert answer.transaction.is_commit
    assert coordinator.add(grant, [A]) in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED)
    after = coordinator.complete()
    assert after.state is TransactionState.COMPLETE_COMMIT
    assert not after.partitions
    assert coordinator.add(after.grant) is ErrorCode.NONE


def test_the_epoch_of_a_client_that_knows_kip_890_rises_with_each_end() -> None:
    stays, rises = Coordinator(0), Coordinator()
    for coordinator, rise in ((stays, 0), (rises, 1)):
        grant = coordinator.init()
        for is_commit in (True, False):
            coordinator.add(grant)
            after = coordinator.end(grant, is_commit=is_commit)
            assert after == ProducerGrant(grant.producer_id, grant.producer_epoch + rise)
            grant = after


@pytest.mark.parametrize("is_commit", [True, False])
def test_who_did_not_hear_of_the_end_asks_again(coordinator: Coordinator, is_commit: bool) -> None:
    grant = coordinator.init()
    coordinator.add(grant)
    coordinator.prepare(grant, is_commit=is_commit)
    assert isinstance(coordinator.prepare(grant, is_commit=is_commit), Ending), "while markers are written"
    after = coordinator.complete().grant
    assert coordinator.prepare(grant, is_commit=is_commit) == Ended(after)
    assert code(coordinator.prepare(grant, is_commit=not is_commit)) is ErrorCode.INVALID_TXN_STATE
    coordinator.restart()
    assert coordinator.prepare(grant, is_commit=is_commit) == Ended(after)


def test_a_late_end_of_one_transaction_never_ends_the_next() -> None:
    """KAFKA-17754; before KIP-890 nothing tells them apart."""
    coordinator = Coordinator()
    first = coordinator.init()
    coordinator.add(first)
    second = coordinator.end(first, is_commit=True)
    coordinator.add(second)
    for is_commit in (True, False):
        assert code(coordinator.prepare(first, is_commit=is_commit)) is ErrorCode.PRODUCER_FENCED
    assert state(coordinator) is TransactionState.ONGOING


def test_a_late_write_of_one_transaction_never_enters_the_next() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    coordinator.add(first)
    second = coordinator.end(first, is_commit=True)
    assert coordinator.add(first, [B]) is ErrorCode.PRODUCER_FENCED
    coordinator.add(second, [B])
    assert coordinator.add(first, [B]) is ErrorCode.PRODUCER_FENCED


def test_partitions_that_were_not_added_are_not_written_by_older_clients() -> None:
    coordinator = Coordinator(0)
    grant = coordinator.init()
    ids = ("t", grant.producer_id, grant.producer_epoch)
    refusal = coordinator.core.refusal_of_write
    assert refusal(*ids, A) is ErrorCode.INVALID_TXN_STATE
    coordinator.add(grant, [A])
    assert refusal(*ids, A) is ErrorCode.NONE
    assert refusal(*ids, B) is ErrorCode.INVALID_TXN_STATE
    assert refusal("t", grant.producer_id, 7, A) is ErrorCode.PRODUCER_FENCED
    assert refusal("nobody", grant.producer_id, 0, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.prepare(grant, is_commit=True)
    assert refusal(*ids, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert refusal(*ids, A) is ErrorCode.INVALID_TXN_STATE, "a late one of the last"


def test_an_empty_transaction_is_aborted_by_newer_clients_only() -> None:
    older, newer = Coordinator(0), Coordinator()
    for coordinator in (older, newer):
        grant = coordinator.init()
        assert code(coordinator.prepare(grant, is_commit=True)) is ErrorCode.INVALID_TXN_STATE
        aborted = coordinator.prepare(grant, is_commit=False)
        if coordinator is newer:
            assert isinstance(aborted, Ending)
        else:
            assert code(aborted) is ErrorCode.INVALID_TXN_STATE


def test_no_partitions_begin_no_transaction(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    assert coordinator.add(grant, []) is ErrorCode.NONE
    assert state(coordinator) is TransactionState.EMPTY


def test_too_many_partitions(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "PARTITIONS_MAX", 1)
    grant = coordinator.init()
    assert coordinator.add(grant, [A]) is ErrorCode.NONE
    assert coordinator.add(grant, [B]) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


# -- time


def test_what_takes_longer_than_its_client_said_is_aborted(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    assert coordinator.core.next_deadline_ms(0) is None
    coordinator.add(grant)
    assert coordinator.core.next_deadline_ms(500) == 60_500
    coordinator.add(grant, [B])
    assert coordinator.core.next_deadline_ms(900) == 60_500, "it counts from its first partition"
    assert coordinator.core.overdue(60_499) == []
    assert coordinator.core.overdue(60_500) == ["t"]
    ending = coordinator.carry_out(coordinator.core.abort("t", 2_000))
    assert isinstance(ending, Ending)
    assert ending.transaction.producer_epoch == grant.producer_epoch + 1
    done = coordinator.complete()
    assert coordinator.carry_out(coordinator.core.abort("t", 2_000)) is None
    late = {is_commit: coordinator.prepare(grant, is_commit=is_commit) for is_commit in (True, False)}
    if coordinator.client_version < EPOCH_BUMP_FROM:
        assert {code(answer) for answer in late.values()} == {ErrorCode.PRODUCER_FENCED}
    else:
        assert code(late[True]) is ErrorCode.INVALID_TXN_STATE, "it cannot have been committed"
        assert late[False] == Ended(done.grant), "it is as its client wants it, who goes on"


def test_an_overdue_transaction_in_the_last_epoch_leaves_its_client_none(coordinator: Coordinator) -> None:
    last = ProducerGrant(7, PRODUCER_EPOCH_MAX - 1)
    coordinator.carry_out(coordinator.core.take_over([("t", last, 0)]))
    assert coordinator.add(last) is ErrorCode.NONE
    coordinator.carry_out(coordinator.core.abort("t", 2_000))
    coordinator.complete()
    for is_commit in (True, False):
        assert code(coordinator.prepare(last, is_commit=is_commit)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.init().producer_id != 7


def test_what_ends_in_time_is_never_overdue(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    coordinator.add(grant)
    coordinator.core.next_deadline_ms(0)
    coordinator.end(grant, is_commit=True)
    assert coordinator.core.next_deadline_ms(0) is None
    assert coordinator.core.overdue(10**9) == []


def test_after_a_restart_a_transaction_has_its_whole_time_again(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    coordinator.add(grant)
    coordinator.core.next_deadline_ms(0)
    coordinator.restart()
    assert coordinator.core.next_deadline_ms(7) == 60_007


def test_where_rows_may_be_gone_what_is_open_is_aborted_and_fenced_and_nothing_else(
    coordinator: Coordinator,
) -> None:
    decided = coordinator.init("decided")
    coordinator.add(decided, name="decided")
    coordinator.prepare(decided, is_commit=True, name="decided")
    coordinator.init("rests")
    zombie = coordinator.init()
    coordinator.add(zombie)
    coordinator.restart()
    coordinator.carry_out(coordinator.core.abort_what_is_open(coordinator.now_ms))
    assert state(coordinator) is TransactionState.PREPARE_ABORT
    assert state(coordinator, "decided") is TransactionState.PREPARE_COMMIT
    assert state(coordinator, "rests") is TransactionState.EMPTY
    assert isinstance(coordinator.prepare(zombie, is_commit=True), Refused)
    assert coordinator.complete().producer_epoch > zombie.producer_epoch
    assert isinstance(coordinator.prepare(zombie, is_commit=True), Refused)
    assert coordinator.core.abort_what_is_open(coordinator.now_ms).records == ()


def test_a_name_that_rests_for_long_is_forgotten_and_no_other_is() -> None:
    coordinator = Coordinator(core=Transactions(TransactionSettings(expiration_ms=100)))
    for name in ("rests", "open", "prepared"):
        grant = coordinator.init(name)
        if name != "rests":
            coordinator.add(grant, name=name)
        if name == "prepared":
            coordinator.prepare(grant, is_commit=True, name=name)
    assert not coordinator.carry_out(coordinator.core.forget_what_is_over(coordinator.now_ms + 99))
    assert coordinator.core.get("rests") is not None
    coordinator.carry_out(coordinator.core.forget_what_is_over(coordinator.now_ms + 100))
    assert [each.transactional_id for each in coordinator.core] == ["open", "prepared"]


# -- after a start


def test_what_is_open_in_a_partition_belongs_to_what_its_producer_has_under_way(
    coordinator: Coordinator,
) -> None:
    """The record that a partition is written need not be durable before its rows are."""
    grant = coordinator.init()
    found = [(A, grant.producer_id, grant.producer_epoch)]
    assert coordinator.carry_out(coordinator.core.reconcile(found, 5)) == []
    known = coordinator.core.get("t")
    assert known is not None
    assert (known.state, known.partitions) == (TransactionState.ONGOING, {A})
    assert coordinator.core.reconcile(found, 5).records == ()


def test_what_nobody_has_under_way_is_a_stray(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    later = coordinator.init()
    found = [
        (A, grant.producer_id, grant.producer_epoch),
        (B, 9, 0),
        (A, later.producer_id, later.producer_epoch),
    ]
    assert coordinator.carry_out(coordinator.core.reconcile(found, 5)) == [Stray(*found[0]), Stray(*found[1])]


def test_what_is_prepared_is_not_added_to(coordinator: Coordinator) -> None:
    grant = coordinator.init()
    coordinator.add(grant, [A])
    coordinator.prepare(grant, is_commit=True)
    found = [(A, grant.producer_id, grant.producer_epoch), (B, grant.producer_id, grant.producer_epoch)]
    assert coordinator.carry_out(coordinator.core.reconcile(found, 5)) == [Stray(*found[1])]
    assert [each.transactional_id for each in coordinator.core.prepared()] == ["t"]


def test_identities_are_taken_over_once_and_never_at_a_lower_epoch() -> None:
    coordinator = Coordinator()
    grants = [("t", ProducerGrant(7, 5), 3)]
    coordinator.carry_out(coordinator.core.take_over(grants))
    assert coordinator.init() == ProducerGrant(7, 6)
    coordinator.carry_out(coordinator.core.take_over(grants))
    assert coordinator.init() == ProducerGrant(7, 7)


# -- whatever comes


@dataclasses.dataclass
class Copy:
    """One of several copies of a producer, each of which believes in what it was told last."""

    grant: ProducerGrant | None = None


@settings(max_examples=settings().max_examples * 3)
@given(
    st.sampled_from([0, 2]),
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(
                ["init", "add", "commit", "abort", "complete", "overdue", "restart", "lost", "open"]
            ),
        ),
        max_size=60,
    ),
)
def test_whatever_copies_ask_no_epoch_is_granted_twice_and_no_decision_changes(
    client_version: int, steps: list[tuple[int, str]]
) -> None:
    """Steps are checked against the table of states as they are applied; ``lost`` takes the last unsynced record."""
    coordinator = Coordinator(client_version)
    copies = [Copy() for _ in range(3)]
    granted: set[ProducerGrant] = set()
    for which, step in steps:
        copy = copies[which]
        known = coordinator.core.get("t")
        match step:
            case "init":
                answer = coordinator.ask()
                if isinstance(answer, ProducerGrant):
                    assert answer not in granted, "to one caller only"
                    assert (
                        known is None
                        or answer.producer_id > known.producer_id
                        or (answer.producer_epoch > known.producer_epoch)
                    )
                    granted.add(answer)
                    copy.grant = answer
            case "add" if copy.grant is not None:
                added = coordinator.add(copy.grant, [A])
                is_holder = known is not None and known.grant == copy.grant
                assert (added is ErrorCode.NONE) == (is_holder and not known_is_prepared(known))
            case "commit" | "abort" if copy.grant is not None:
                ended = coordinator.prepare(copy.grant, is_commit=step == "commit")
                if isinstance(ended, Ended):
                    copy.grant = ended.grant
                elif isinstance(ended, Ending):
                    assert ended.transaction.is_commit == (step == "commit")
            case "complete" if known_is_prepared(known):
                coordinator.complete()
            case "overdue":
                coordinator.carry_out(coordinator.core.abort("t", 0))
            case "restart":
                coordinator.restart()
            case "lost" if known is not None and known.state is TransactionState.ONGOING:
                coordinator.log.pop()  # what was registered by a write need not be durable
                coordinator.restart()
            case "open" if known is not None:
                found = [(A, known.producer_id, known.producer_epoch)]
                coordinator.carry_out(coordinator.core.reconcile(found, 0))
    live = Transactions()
    for record in coordinator.core.live_records():
        assert live.apply(record)
    assert list(live) == list(coordinator.core)


def known_is_prepared(known: Transaction | None) -> bool:
    return known is not None and known.state.is_prepared
