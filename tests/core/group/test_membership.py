from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.core.group.members import REBALANCE_MS, SESSION_MS, Members

from semel.core.group.group import Protocol
from semel.core.group.groups import Groups
from semel.core.group.membership import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from semel.core.group.requests import NOBODY, JoinAnswer, SyncAnswer
from semel.core.group.states import GroupState
from semel.errors import ErrorCode


@pytest.fixture
def members() -> Members:
    return Members(Groups(), "g")


def of(members: Members, **settings: int) -> Members:
    return Members(Groups(settings=GroupSettings(**settings)), "g")


def state(members: Members) -> GroupState:
    group = members.groups.membership.get("g")
    assert group is not None
    return group.state


def two(members: Members) -> None:
    """``m`` leads, ``n`` follows, each with its part, in generation 2."""
    members.join("m")
    members.assign("m")
    joins = members.begin_join("n"), members.begin_join("", "m")
    assert [members.joined(each).generation_id for each in joins] == [2, 2]
    follower = members.begin_sync("n")
    assert members.assign("m", m=b"to m", n=b"to n").assignment == b"to m"
    assert members.synced(follower).assignment == b"to n"


# -- joining


def test_the_first_one_leads_and_hands_out(members: Members) -> None:
    answer = members.join("m")
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, "m")
    assert [one.member_id for one in answer.members] == ["m"]
    assert state(members) is GroupState.COMPLETING_REBALANCE
    assert members.assign("m", m=b"all").assignment == b"all"
    assert state(members) is GroupState.STABLE
    assert members.heartbeat("m", 1) is ErrorCode.NONE


def test_a_second_one_makes_the_first_come_again(members: Members) -> None:
    members.join("m")
    members.assign("m", m=b"all")
    second = members.begin_join("n")
    assert second not in members.answers
    assert members.heartbeat("m", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = members.joined(members.begin_join("", "m"))
    assert (first.generation_id, [one.member_id for one in first.members]) == (2, ["m", "n"])
    follower = members.joined(second)
    assert (follower.generation_id, follower.leader, follower.members) == (2, "m", ())


def test_an_assignment_comes_to_all_once_it_is_written(members: Members) -> None:
    two(members)
    again = Groups()
    for record in members.groups.live_records():
        again.apply(record)
    stored = again.records.stored["g"]
    assert stored.generation_id == 2
    assert {one.member_id: one.assignment for one in stored.members} == {"m": b"to m", "n": b"to n"}


def test_one_that_comes_with_an_id_to_begin_with_is_given_one_first(members: Members) -> None:
    """KIP-394: a client that never has its answer leaves no member behind."""
    refused = members.joined(members.begin_join("m", needs_known_id=True))
    assert (refused.error_code, refused.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m")
    assert state(members) is GroupState.EMPTY
    assert members.join("", member_id="m", needs_known_id=True).member_id == "m"


def test_an_id_that_nobody_comes_back_with_is_forgotten_with_its_session(members: Members) -> None:
    members.begin_join("m", needs_known_id=True)
    members.pass_ms(SESSION_MS)
    unknown = members.joined(members.begin_join("", "m", needs_known_id=True))
    assert unknown.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_whom_an_id_was_given(members: Members) -> None:
    members.join("m")
    members.assign("m")
    members.begin_join("n", needs_known_id=True)
    members.begin_join("o")
    first = members.begin_join("", "m")
    assert first not in members.answers
    members.begin_join("", "n", needs_known_id=True)
    assert len(members.joined(first).members) == 3


def test_a_rebalance_that_all_have_left_takes_whoever_comes(members: Members) -> None:
    """It still waits for whom an id was given; nobody is there whose protocols would have to fit."""
    members.begin_join("a")
    members.begin_join("waited-for", needs_known_id=True)
    assert members.leave("a") == [ErrorCode.NONE]
    ticket = members.begin_join("b", protocols=[Protocol("sticky", b"")])
    members.pass_ms(SESSION_MS)
    assert members.joined(ticket).error_code is ErrorCode.NONE


def test_the_first_rebalance_waits_for_others_as_long_as_they_come() -> None:
    members = of(Members(Groups(), "g"), initial_rebalance_delay_ms=3_000)
    first = members.begin_join("m")
    members.pass_ms(2_000)
    second = members.begin_join("n")
    members.pass_ms(1_000)
    assert not members.answers, "one came, so once more as long"
    members.pass_ms(3_000)
    assert len(members.joined(first).members) == 2
    assert members.joined(second).generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_a_rebalance_may() -> None:
    members = of(Members(Groups(), "g"), initial_rebalance_delay_ms=3_000)
    first = members.begin_join("m0")
    for number in range(1, 100):
        members.pass_ms(1_000)
        if first in members.answers:
            break
        members.begin_join(f"m{number}")
    assert members.now_ms <= 1_000 + REBALANCE_MS + 3_000
    assert len(members.joined(first).members) >= 59


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_refusals_of_a_new_group(members: Members, how: dict[str, object], code: ErrorCode) -> None:
    assert members.join("m", **how).error_code is code
    assert list(members.groups) == []


def test_a_group_needs_a_name() -> None:
    for group_id in ("", "x" * 1025):
        assert Members(Groups(), group_id).join("m").error_code is ErrorCode.INVALID_GROUP_ID
    nobody = Members(Groups(), "")
    assert nobody.synced(nobody.begin_sync("m")).error_code is ErrorCode.INVALID_GROUP_ID
    assert nobody.heartbeat("m", 1) is ErrorCode.INVALID_GROUP_ID
    assert nobody.leave("m") == [ErrorCode.INVALID_GROUP_ID]


def test_a_protocol_that_not_all_know_is_refused(members: Members) -> None:
    members.join("m", protocols=[Protocol("range", b""), Protocol("own", b"")])
    refused = members.join("n", protocols=[Protocol("other", b"")])
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_where_all_have_gone_again_before_a_generation_any_protocol_will_do() -> None:
    """Found by the simulator: nobody was there, and nobody could join, until the delay was over."""
    members = of(Members(Groups(), "g"), initial_rebalance_delay_ms=3_000)
    members.begin_join("m")
    members.leave("m")
    assert state(members) is GroupState.PREPARING_REBALANCE
    second = members.begin_join("n", protocols=[Protocol("other", b"")])
    members.pass_ms(6_000)
    assert members.joined(second).generation_id == 1


def test_of_a_group_of_another_kind_nobody_becomes_a_member_while_it_goes_on() -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=3_000)
    members = Members(Groups(settings=settings), "g", protocol_type="connect")
    members.begin_join("m")
    members.leave("m")
    others = Members(members.groups, "g")
    refused = others.joined(others.begin_join("n"))
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_the_one_that_most_like_best_of_those_that_all_know(members: Members) -> None:
    def named(*names: str) -> list[Protocol]:
        return [Protocol(name, name.encode()) for name in names]

    first = members.begin_join("a", protocols=named("x", "y", "z"))
    members.begin_join("b", protocols=named("w", "y", "x"))
    members.begin_join("c", protocols=named("y", "x"))
    members.pass_ms(0)
    answer = members.joined(first)
    assert answer.protocol_name == "y"
    assert {one.metadata for one in answer.members} == {b"y"}


def test_a_full_group_takes_nobody_more() -> None:
    members = of(Members(Groups(), "g"), max_size=1)
    members.join("m")
    members.assign("m")
    assert members.join("n").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert members.join("", member_id="m").generation_id == 2


def test_a_lost_answer_is_given_again(members: Members) -> None:
    members.join("m")
    assert members.joined(members.begin_join("", "m")).generation_id == 1, "the same generation"
    members.assign("m", m=b"all")
    assert members.synced(members.begin_sync("m")).assignment == b"all"


def test_a_member_that_asks_again_gives_up_its_first_request(members: Members) -> None:
    two(members)
    first = members.begin_join("", "m")
    second = members.begin_join("", "m")
    assert members.joined(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in members.answers


def test_a_follower_that_only_asks_again_changes_nothing(members: Members) -> None:
    two(members)
    assert members.joined(members.begin_join("", "n")).generation_id == 2
    assert state(members) is GroupState.STABLE


def test_a_leader_that_joins_again_wants_an_assignment_anew(members: Members) -> None:
    two(members)
    members.begin_join("", "m")
    assert state(members) is GroupState.PREPARING_REBALANCE


# -- who does not come


def test_who_does_not_join_again_in_time_is_no_member_any_more(members: Members) -> None:
    two(members)
    first = members.begin_join("", "m")
    for _ in range(REBALANCE_MS // 5_000):
        assert first not in members.answers
        members.heartbeat("n", 2)
        members.pass_ms(5_000)
    assert [one.member_id for one in members.joined(first).members] == ["m"]
    assert members.heartbeat("n", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_not_heard_of_is_gone_with_its_session(members: Members) -> None:
    two(members)
    for _ in range(3):
        members.pass_ms(SESSION_MS // 3)
        members.heartbeat("m", 2)
    members.pass_ms(1)
    assert state(members) is GroupState.PREPARING_REBALANCE
    assert [one.member_id for one in members.join("", member_id="m").members] == ["m"]


def test_the_last_one_gone_leaves_an_empty_group_that_is_written(members: Members) -> None:
    members.join("m")
    members.assign("m")
    members.pass_ms(SESSION_MS)
    assert state(members) is GroupState.EMPTY
    stored = members.groups.records.stored["g"]
    assert (stored.generation_id, stored.members) == (2, ())


def test_a_new_member_that_waits_long_need_not_show_that_it_lives(members: Members) -> None:
    two(members)
    third = members.begin_join("o")
    for _ in range(SESSION_MS // 1_000 + 2):
        members.pass_ms(1_000)
        members.heartbeat("m", 2)
        members.heartbeat("n", 2)
    assert third not in members.answers
    assert len(members.groups.membership.get("g").members) == 3  # type: ignore[union-attr]
    members.pass_ms(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert third in members.answers


def test_a_leader_that_never_assigns_is_replaced(members: Members) -> None:
    two(members)
    joins = members.begin_join("", "m"), members.begin_join("", "n")
    for each in joins:
        members.joined(each)
    follower = members.begin_sync("n")
    members.pass_ms(SESSION_MS)
    assert members.synced(follower).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert members.join("", member_id="n").leader == "n"


def test_a_member_that_never_asks_for_its_part_is_gone(members: Members) -> None:
    two(members)
    joins = members.begin_join("", "m"), members.begin_join("", "n")
    for each in joins:
        members.joined(each)
    members.assign("m", m=b"to m")
    for _ in range(REBALANCE_MS // 5_000):
        members.heartbeat("m", 3)
        members.heartbeat("n", 3)
        members.pass_ms(5_000)
    assert members.heartbeat("n", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert state(members) is GroupState.PREPARING_REBALANCE


def test_one_that_joins_once_more_in_a_generation_has_only_what_is_left_of_the_time_for_its_part(
    members: Members,
) -> None:
    """As in Apache Kafka (``expirePendingSync``): the others wait for it no longer than from when that began."""
    two(members)
    joins = members.begin_join("", "m"), members.begin_join("", "n")
    for each in joins:
        members.joined(each)
    members.begin_sync("n")
    live(members, REBALANCE_MS - 1, m=3)
    assert members.joined(members.begin_join("", "m")).generation_id == 3, "it has not had the first answer"
    members.pass_ms(1)
    assert members.synced(members.begin_sync("m", 3)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


# -- syncing


@pytest.mark.parametrize(
    ("member_id", "generation_id", "code"),
    [
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 1, ErrorCode.ILLEGAL_GENERATION),
        ("m", 3, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_only_members_of_this_generation_sync_and_live(
    members: Members, member_id: str, generation_id: int, code: ErrorCode
) -> None:
    two(members)
    assert members.synced(members.begin_sync(member_id, generation_id)).error_code is code
    assert members.heartbeat(member_id, generation_id) is code


def test_a_sync_while_all_join_again_is_refused(members: Members) -> None:
    two(members)
    members.begin_join("o")
    assert members.synced(members.begin_sync("n")).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_joins_between_two_generations_sends_all_back(members: Members) -> None:
    two(members)
    joins = members.begin_join("", "m"), members.begin_join("", "n")
    for each in joins:
        members.joined(each)
    follower = members.begin_sync("n")
    members.begin_join("o")
    assert members.synced(follower).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    late = members.synced(members.begin_sync("m", 3, {"m": b"1", "n": b"2"}))
    assert late.error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert all(not one.assignment for one in members.groups.membership.get("g").members.values())  # type: ignore[union-attr]


def test_an_assignment_that_the_log_refused_counts_for_nobody(members: Members) -> None:
    two(members)
    effects = members.groups.membership.was_not_stored("g", members.now_ms, 0)
    assert not effects.records
    assert state(members) is GroupState.PREPARING_REBALANCE


# -- leaving


def test_who_leaves_is_gone_at_once(members: Members) -> None:
    two(members)
    assert members.leave("n") == [ErrorCode.NONE]
    assert members.heartbeat("m", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert [one.member_id for one in members.join("", member_id="m").members] == ["m"]


def test_several_leave_each_with_its_answer(members: Members) -> None:
    two(members)
    assert members.leave("x", "n", "m") == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert state(members) is GroupState.EMPTY
    assert Members(Groups(), "h").leave("m") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_waiting_join_of_one_that_leaves_is_answered(members: Members) -> None:
    two(members)
    third = members.begin_join("o")
    members.leave("o")
    assert members.joined(third).error_code is ErrorCode.UNKNOWN_MEMBER_ID


# -- static members (KIP-345)


def static(members: Members) -> None:
    first = members.begin_join("m", instance_id="one")
    second = members.begin_join("n", instance_id="two")
    members.pass_ms(0)
    members.joined(first), members.joined(second)
    follower = members.begin_sync("n", instance_id="two")
    members.assign("m", m=b"to m", n=b"to n")
    members.synced(follower)


def test_a_static_member_comes_back_to_what_it_had(members: Members) -> None:
    static(members)
    again = members.joined(members.begin_join("n2", instance_id="two"))
    assert (again.error_code, again.generation_id, again.member_id) == (ErrorCode.NONE, 1, "n2")
    assert state(members) is GroupState.STABLE, "and nobody else hears of it"
    assert members.synced(members.begin_sync("n2", instance_id="two")).assignment == b"to n"
    assert {one.member_id for one in members.groups.records.stored["g"].members} == {"m", "n2"}


def test_its_earlier_copy_is_fenced(members: Members) -> None:
    static(members)
    members.begin_join("n2", instance_id="two")
    assert members.heartbeat("n", 1, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert members.synced(members.begin_sync("n", 1, None, "two")).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert members.leave("n", instance_id="two") == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_leader_that_comes_back_is_told_that_no_assignment_is_wanted(members: Members) -> None:
    static(members)
    again = members.joined(members.begin_join("m2", instance_id="one"))
    assert (again.leader, again.skip_assignment, len(again.members)) == ("m2", True, 2)
    older = members.joined(members.begin_join("m3", instance_id="one", can_skip_assignment=False))
    assert (older.leader, older.skip_assignment, older.members) == ("m2", False, ())


def test_one_that_comes_back_with_another_protocol_begins_a_rebalance(members: Members) -> None:
    members.join("m", instance_id="one", protocols=[Protocol("range", b""), Protocol("own", b"")])
    members.assign("m")
    members.begin_join("m2", instance_id="one", protocols=[Protocol("own", b"")])
    assert state(members) is GroupState.COMPLETING_REBALANCE, "it is the only one"


def test_one_that_stays_away_keeps_its_place_for_its_session(members: Members) -> None:
    static(members)
    members.begin_join("o")
    first = members.begin_join("", "m", instance_id="one")
    members.pass_ms(SESSION_MS - 1)
    assert len(members.groups.membership.get("g").members) == 3  # type: ignore[union-attr]
    members.pass_ms(1)
    assert [one.member_id for one in members.joined(first).members] == ["m", "o"]


def test_one_that_comes_back_late_to_a_generation_has_its_own_time_to_ask_for_its_part(
    members: Members,
) -> None:
    """Found by the simulator: it was welcome, and dropped the moment after as if it had been there all the time."""
    static(members)
    members.begin_join("o")
    members.begin_join("", "m", instance_id="one")
    live(members, REBALANCE_MS, n=1)
    assert state(members) is GroupState.COMPLETING_REBALANCE, (
        "without the second one, which stays away but lives"
    )
    members.assign("m", m=b"to m", n=b"to n")
    members.begin_sync("o")
    live(members, REBALANCE_MS - 2, m=2, n=2, o=2)
    late = members.joined(members.begin_join("n2", instance_id="two"))
    assert (late.error_code, late.generation_id) == (ErrorCode.NONE, 2)
    live(members, 5, m=2, o=2)
    assert members.heartbeat("n2", 2, "two") is ErrorCode.NONE


def live(members: Members, duration_ms: int, **generation_ids: int) -> None:
    """Let time pass in which these are heard of."""
    while duration_ms > 0:
        for member_id, generation_id in generation_ids.items():
            members.heartbeat(member_id, generation_id)
        members.pass_ms(min(duration_ms, SESSION_MS // 2))
        duration_ms -= SESSION_MS // 2


def test_an_administrator_removes_it_by_its_name(members: Members) -> None:
    static(members)
    assert members.leave(NOBODY, instance_id="two") == [ErrorCode.NONE]
    assert members.leave(NOBODY, instance_id="two") == [ErrorCode.UNKNOWN_MEMBER_ID]


# -- after a restart


def restarted(members: Members) -> Members:
    groups = Groups()
    for record in members.groups.live_records():
        groups.apply(record)
    groups.membership.begin(groups.records.stored, 0, 0)
    after = Members(groups, "g")
    after.now_ms = 0
    return after


def test_a_stable_group_goes_on_without_a_rebalance(members: Members) -> None:
    two(members)
    after = restarted(members)
    assert state(after) is GroupState.STABLE
    assert after.heartbeat("m", 2) is ErrorCode.NONE
    assert after.synced(after.begin_sync("n")).assignment == b"to n"


def test_whoever_does_not_come_back_is_gone_with_its_session(members: Members) -> None:
    two(members)
    after = restarted(members)
    after.pass_ms(SESSION_MS - 1)
    after.heartbeat("m", 2)
    after.pass_ms(1)
    assert after.heartbeat("n", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_was_under_way_is_as_if_it_had_not_begun(members: Members) -> None:
    two(members)
    members.begin_join("", "m")
    after = restarted(members)
    assert state(after) is GroupState.STABLE
    assert after.heartbeat("n", 2) is ErrorCode.NONE


def test_the_generation_goes_on_from_an_empty_group(members: Members) -> None:
    two(members)
    members.leave("m", "n")
    after = restarted(members)
    assert state(after) is GroupState.EMPTY
    assert after.join("o").generation_id == 4


# -- whatever comes


@dataclass
class Client:
    """One that may lose its answers."""

    member_id: str = NOBODY
    instance_id: str | None = None
    generation_id: int = -1
    joining: int | None = None
    syncing: int | None = None
    joined: JoinAnswer | None = None
    assignment: bytes = b""


class AnyOrder(RuleBasedStateMachine):
    """Clients, time and a server that is restarted, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.members = of(Members(Groups(), "g"), initial_rebalance_delay_ms=50)
        self.clients = [Client(), Client(), Client(instance_id="s"), Client(instance_id="s")]
        self.owners: dict[tuple[int, bytes], str] = {}
        self.fresh = 0
        self.open: set[int] = set()

    @rule(which=st.integers(0, 3), knows=st.booleans())
    def join(self, which: int, knows: bool) -> None:
        client = self.clients[which]
        self.fresh += 1
        if not knows:
            client.member_id = NOBODY
        client.joining = self.members.begin_join(
            f"f{self.fresh}", client.member_id, instance_id=client.instance_id, needs_known_id=which == 1
        )
        self.open.add(client.joining)

    @rule(which=st.integers(0, 3))
    def sync(self, which: int) -> None:
        client = self.clients[which]
        told = {}
        if client.joined is not None and client.joined.leader == client.member_id:
            ids = [one.member_id for one in client.joined.members]
            told = {each: b"p%d" % number for number, each in enumerate(ids)}
        client.syncing = self.members.begin_sync(
            client.member_id, client.generation_id, told, client.instance_id
        )
        self.open.add(client.syncing)

    @rule(which=st.integers(0, 3))
    def heartbeat(self, which: int) -> None:
        client = self.clients[which]
        self.members.heartbeat(client.member_id, client.generation_id, client.instance_id)

    @rule(which=st.integers(0, 3))
    def leave(self, which: int) -> None:
        self.members.leave(self.clients[which].member_id, instance_id=self.clients[which].instance_id)

    @rule(duration_ms=st.sampled_from([0, 1, 50, 3_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, duration_ms: int) -> None:
        self.members.pass_ms(duration_ms)

    @precondition(lambda self: self.fresh > 0)
    @rule()
    def restart(self) -> None:
        self.members = restarted(self.members)
        self.open.clear()
        for client in self.clients:
            client.joining = client.syncing = None

    @invariant()
    def answers_are_taken(self) -> None:
        assert self.open >= self.members.answers.keys(), "an answer to nobody, or a second one"
        for client in self.clients:
            if client.joining in self.members.answers:
                joined = self.members.joined(client.joining)
                self.open.discard(client.joining)
                client.joining = None
                client.member_id = joined.member_id
                if joined.error_code is ErrorCode.NONE:
                    client.joined, client.generation_id = joined, joined.generation_id
            if client.syncing in self.members.answers:
                synced: SyncAnswer = self.members.synced(client.syncing)
                self.open.discard(client.syncing)
                client.syncing = None
                if synced.error_code is ErrorCode.NONE and synced.assignment:
                    place = client.generation_id, synced.assignment
                    heir = client.instance_id or client.member_id  # a static member's copy takes its place
                    assert self.owners.setdefault(place, heir) == heir, "two owners in one generation"
        for ticket in list(self.members.answers):  # of requests that were given up
            del self.members.answers[ticket]
            self.open.discard(ticket)

    @invariant()
    def leads_who_is_there(self) -> None:
        group = self.members.groups.membership.get("g")
        if group is None:
            return
        assert (group.leader in group.members) if group.members else group.leader is None
        assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        assert group.state is not GroupState.PREPARING_REBALANCE or (
            self.members.groups.membership.next_deadline_ms() is not None
        ), "nothing would ever end it"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=settings().max_examples * 3 // 5, stateful_step_count=40)
