from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.core.group.members import Members

from semel.core.decision import Decision
from semel.core.group.groups import METADATA_BYTES_MAX, Groups, OffsetSettings
from semel.core.group.records import CommittedOffset
from semel.core.group.requests import Codes, CommitOffsets, DeleteOffsets, OffsetToCommit
from semel.core.group.states import GroupState
from semel.errors import ErrorCode
from semel.types import TopicPartition

T = TypeVar("T")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DAY_MS = 86_400_000


def run(groups: Groups, decision: Decision[T]) -> T:
    for record in decision.records:
        assert groups.apply(record)
    return decision.response


def commit(
    groups: Groups, group_id: str, *offsets: tuple[TopicPartition, int], at_ms: int = 9, **rest: int | str
) -> Codes:
    named = [OffsetToCommit(partition, offset, 4, "m") for partition, offset in offsets]
    return run(groups, groups.commit(CommitOffsets(group_id, named, **rest), 0, at_ms))  # type: ignore[arg-type]


def names(groups: Groups) -> list[str]:
    return [each.group_id for each in groups]


def test_the_last_commit_counts() -> None:
    groups = Groups()
    assert commit(groups, "g", (A0, 1), (B0, 2)) == {A0: ErrorCode.NONE, B0: ErrorCode.NONE}
    commit(groups, "g", (A0, 7))
    assert groups.offsets("g")[A0] == CommittedOffset(7, 4, "m", 9)
    assert sorted(groups.offsets("g")) == [A0, B0]
    assert not groups.offsets("h")
    assert names(groups) == ["g"]


def test_topics_can_be_forgotten() -> None:
    groups = Groups()
    commit(groups, "g", (A0, 1), (A1, 1), (B0, 2))
    commit(groups, "h", (A0, 1))
    run(groups, groups.forget_topic("a"))
    assert names(groups) == ["g"]
    assert list(groups.offsets("g")) == [B0]
    run(groups, groups.forget_topic("b"))
    assert names(groups) == []
    assert list(groups.live_records()) == []


def test_the_live_records_make_the_same_state() -> None:
    groups = Groups()
    commit(groups, "g", (A0, 1), (A1, 1))
    Members(groups, "h").join("m")
    again = Groups()
    for record in groups.live_records():
        again.apply(record)
    assert list(again.live_records()) == list(groups.live_records())
    assert names(again) == ["g", "h"]


def test_refusals() -> None:
    groups = Groups()
    long = CommitOffsets(
        "g", [OffsetToCommit(A0, 1, 0, "x" * (METADATA_BYTES_MAX + 1)), OffsetToCommit(A1, 1, 0, "")]
    )
    assert groups.commit(long, 0, 0).response == {
        A0: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        A1: ErrorCode.NONE,
    }
    assert commit(groups, "", (A0, 1)) == {A0: ErrorCode.INVALID_GROUP_ID}
    assert commit(groups, "g", (A0, 1), generation_id=3) == {A0: ErrorCode.GROUP_ID_NOT_FOUND}
    assert groups.delete_offsets(DeleteOffsets("", [A0])).response is ErrorCode.INVALID_GROUP_ID
    assert not groups.offsets("g")
    assert commit(groups, "g", (A0, 1), member_id="m") == {A0: ErrorCode.NONE}, "without a generation: nobody"


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_an_offset_below_0_is_kept_as_it_was_committed(offset: int) -> None:
    groups = Groups()
    assert commit(groups, "g", (A0, offset)) == {A0: ErrorCode.NONE}
    assert groups.offsets("g")[A0].committed_offset == offset


def test_only_a_member_of_this_generation_commits() -> None:
    groups = Groups()
    members = Members(groups, "g")
    members.join("m")
    members.assign("m")
    assert commit(groups, "g", (A0, 1)) == {A0: ErrorCode.UNKNOWN_MEMBER_ID}, (
        "nobody, while there are members"
    )
    for generation_id, code in ((1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION)):
        assert commit(groups, "g", (A0, 2), generation_id=generation_id, member_id="m") == {A0: code}
    stranger = commit(groups, "g", (A0, 3), generation_id=1, member_id="n")
    assert stranger == {A0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert groups.offsets("g")[A0].committed_offset == 2


def test_a_commit_between_two_generations_waits_for_the_assignment() -> None:
    groups = Groups()
    Members(groups, "g").join("m")
    code = commit(groups, "g", (A0, 2), generation_id=1, member_id="m")
    assert code == {A0: ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_commit_keeps_a_member_alive() -> None:
    groups = Groups()
    members = Members(groups, "g")
    members.join("m")
    members.assign("m")
    before_ms = groups.membership.next_deadline_ms()
    request = CommitOffsets("g", [OffsetToCommit(A0, 1, 0, "")], 1, "m")
    run(groups, groups.commit(request, members.now_ms + 500, 0))
    assert groups.membership.next_deadline_ms() == (before_ms or 0) + 500


# -- deleting


def test_a_group_without_members_can_be_deleted() -> None:
    groups = Groups()
    commit(groups, "g", (A0, 1))
    assert run(groups, groups.delete_group("g")) is ErrorCode.NONE
    assert names(groups) == []
    assert groups.delete_group("g").response is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_cannot() -> None:
    groups = Groups()
    members = Members(groups, "g")
    members.join("m")
    assert groups.delete_group("g").response is ErrorCode.NON_EMPTY_GROUP
    members.leave("m")
    assert run(groups, groups.delete_group("g")) is ErrorCode.NONE
    assert names(groups) == []
    assert list(groups.live_records()) == []


def test_a_group_whose_end_the_log_has_refused_goes_on_in_its_generation() -> None:
    """Found by the simulator, on a full disk: its generations began anew behind those in the log."""
    groups = Groups()
    members = Members(groups, "g")
    members.join("m")
    members.assign("m")
    members.leave("m")
    for refused in (groups.delete_group("g"), groups.forget_what_is_over(0)):
        assert refused.records
    assert members.join("n").generation_id == 3


def test_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    groups = Groups()
    members = Members(groups, "g", topics=["a"])
    members.join("m")
    members.assign("m")
    commit(groups, "g", (A0, 1), (B0, 1), generation_id=1, member_id="m")
    asked = DeleteOffsets("g", [A0, B0, A1])
    assert run(groups, groups.delete_offsets(asked)) == {
        A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        B0: ErrorCode.NONE,
        A1: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
    assert list(groups.offsets("g")) == [A0]
    members.leave("m")
    assert run(groups, groups.delete_offsets(DeleteOffsets("g", [A0]))) == {A0: ErrorCode.NONE}
    assert groups.delete_offsets(DeleteOffsets("h", [A0])).response is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_of_another_protocol_go_only_when_it_is_empty() -> None:
    groups = Groups()
    Members(groups, "g", protocol_type="connect").join("m")
    assert groups.delete_offsets(DeleteOffsets("g", [A0])).response is ErrorCode.NON_EMPTY_GROUP


# -- what is over


def over(groups: Groups, at_ms: int) -> None:
    while run(groups, groups.forget_what_is_over(at_ms)):
        pass


@pytest.fixture
def groups() -> Groups:
    return Groups(OffsetSettings(retention_ms=DAY_MS))


def test_offsets_of_no_members_count_from_their_commit(groups: Groups) -> None:
    commit(groups, "g", (A0, 1), at_ms=0)
    commit(groups, "g", (A1, 1), at_ms=500)
    over(groups, DAY_MS - 1)
    assert list(groups.offsets("g")) == [A0, A1]
    over(groups, DAY_MS)
    assert list(groups.offsets("g")) == [A1]
    over(groups, DAY_MS + 500)
    assert names(groups) == []


def test_offsets_of_members_count_from_when_the_last_has_gone(groups: Groups) -> None:
    members = Members(groups, "g", topics=["a"])
    members.join("m")
    members.assign("m")
    commit(groups, "g", (A0, 1), at_ms=0, generation_id=1, member_id="m")
    over(groups, 5 * DAY_MS)
    assert list(groups.offsets("g")) == [A0], "it is read"
    members.time_of_day_ms = 5 * DAY_MS
    members.leave("m")
    over(groups, 6 * DAY_MS - 1)
    assert list(groups.offsets("g")) == [A0]
    over(groups, 6 * DAY_MS)
    assert names(groups) == []
    assert list(groups.live_records()) == []


def test_a_topic_that_no_member_reads_any_more_is_over_by_its_commits(groups: Groups) -> None:
    members = Members(groups, "g", topics=["a"])
    members.join("m")
    members.assign("m")
    commit(groups, "g", (A0, 1), (B0, 1), at_ms=0, generation_id=1, member_id="m")
    over(groups, DAY_MS)
    assert list(groups.offsets("g")) == [A0]


def test_a_client_may_say_itself_how_long(groups: Groups) -> None:
    commit(groups, "g", (A0, 1), at_ms=7, retention_ms=100)
    over(groups, 106)
    assert list(groups.offsets("g")) == [A0]
    over(groups, 107)
    assert names(groups) == []


def test_much_that_is_over_goes_in_pieces(groups: Groups) -> None:
    for number in range(2_500):
        commit(groups, f"g{number}", (A0, 1), at_ms=0)
    decisions = 0
    decide: Callable[[], Decision[bool]] = lambda: groups.forget_what_is_over(DAY_MS)  # noqa: E731
    while True:
        decision = decide()
        assert len(decision.records) <= 1_000
        decisions += 1
        if not run(groups, decision):
            break
    assert decisions == 3
    assert names(groups) == []


def test_an_empty_group_is_listed_with_its_state() -> None:
    groups = Groups()
    commit(groups, "g", (A0, 1))
    Members(groups, "h").join("m")
    assert [tuple(each) for each in groups] == [
        ("g", "", GroupState.EMPTY),
        ("h", "consumer", GroupState.COMPLETING_REBALANCE),
    ]


# -- offsets in transactions that are open ---------------------------------------------------------------------


def pend(groups: Groups, group_id: str, *offsets: tuple[TopicPartition, int], producer_id: int = 7) -> None:
    """Committed by a transaction that is open."""
    named = [OffsetToCommit(partition, offset, 4, "m") for partition, offset in offsets]
    for record in groups.commit(CommitOffsets(group_id, named, is_transactional=True), 0, 9).records:
        assert groups.apply_pending(producer_id, record)


def test_no_offset_is_over_while_a_transaction_may_commit_another(groups: Groups) -> None:
    """The tombstone of the old one would take the new one, which is older in the log, with it."""
    commit(groups, "g", (A0, 1), at_ms=0)
    pend(groups, "g", (A0, 2))
    over(groups, 400 * DAY_MS)
    groups.end_pending(7, is_commit=True)
    assert groups.offsets("g")[A0].committed_offset == 2
    over(groups, 800 * DAY_MS)
    assert names(groups) == []


def test_no_group_is_over_while_a_transaction_may_commit_for_it(groups: Groups) -> None:
    members = Members(groups, "g")
    members.join("m")
    members.leave("m")
    pend(groups, "g", (A0, 2))
    over(groups, 400 * DAY_MS)
    assert names(groups) == ["g"]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_transaction_may_commit_goes_with_its_topic(is_known: bool) -> None:
    groups = Groups()
    if is_known:
        commit(groups, "g", (A0, 1), (B0, 1))
    pend(groups, "g", (A0, 5), (B0, 6))
    run(groups, groups.forget_topic("a"))
    groups.end_pending(7, is_commit=True)
    assert {partition: at.committed_offset for partition, at in groups.offsets("g").items()} == {B0: 6}
    assert groups.records.offset_count == 1


def test_what_a_transaction_may_commit_goes_with_its_group() -> None:
    groups = Groups()
    pend(groups, "g", (A0, 5))
    assert "g" in groups
    assert run(groups, groups.delete_group("g")) is ErrorCode.NONE
    groups.end_pending(7, is_commit=True)
    assert (names(groups), groups.records.offset_count, "g" in groups) == ([], 0, False)


def test_what_a_transaction_may_commit_is_deleted_by_request() -> None:
    groups = Groups()
    pend(groups, "g", (A0, 5), (B0, 6))
    assert run(groups, groups.delete_offsets(DeleteOffsets("g", [A0]))) == {A0: ErrorCode.NONE}
    groups.end_pending(7, is_commit=True)
    assert list(groups.offsets("g")) == [B0]
