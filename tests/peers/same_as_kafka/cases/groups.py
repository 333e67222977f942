"""Members of groups, by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.grouping import (
    OTHER_SUBSCRIPTION,
    Group,
    protocols,
    rebalanced,
    two,
    wait_until_called,
)

# Joining


@case()
def a_members_life_in_every_version(wire: Wire) -> object:
    found = {}
    for version in range(10):
        group = Group(wire)
        begun = group.join("", version)
        told = begun.member_id
        joined = group.join(told, version) if begun.error_code.name == "member_id_required" else begun
        other = min(version, 5)
        synced = group.sync(told, 1, {told: b"all"}, version=other)
        beat = group.heartbeat(told, 1, version=min(version, 4))
        left = group.leave((told, None), version=other)
        found[version] = [group.shown(each) for each in (begun, joined, synced, beat, left)]
    return found


@case()
def joins_with_an_id_that_is_not_known(wire: Wire) -> object:
    found = []
    for version in (0, 3, 4, 9):
        group = Group(wire)
        found.append(group.shown(group.join("made up", version)))
        group.settle()
        found.append(group.shown(group.join("made up", version)))
    return found


@case()
def joins_of_a_group_without_a_name(wire: Wire) -> object:
    group = Group(wire, "")
    return [group.shown(group.join("", version)) for version in (0, 9)]


@case(
    because="a group's name is of a sensible length; Apache Kafka takes what fits into a string",
    semel=["member_id_required", "invalid_group_id"],
    kafka=["member_id_required", "member_id_required"],
)
def joins_of_a_group_with_a_long_name(wire: Wire) -> object:
    return [Group(wire, "g" * length).join().error_code.name for length in (1024, 1025)]


@case()
def session_timeouts_of_a_join(wire: Wire) -> object:
    return [
        Group(wire).enter(session_timeout=timeout).error_code.name
        for timeout in (-1, 0, 5_999, 6_000, 1_800_000, 1_800_001)
    ]


@case()
def rebalance_timeouts_of_a_join(wire: Wire) -> object:
    return [Group(wire).enter(rebalance_timeout=timeout).error_code.name for timeout in (-1, 0, 2**31 - 1)]


@case()
def protocols_of_the_first_join(wire: Wire) -> object:
    asked: tuple[dict[str, Any], ...] = (
        {"protocol_type": ""},
        {"protocols": []},
        {"protocols": protocols("")},
        {"protocol_type": "connect", "protocols": protocols("x", metadata=b"")},
    )
    return [
        [group.shown(group.join("", version, **given)) for version in (3, 5, 9)]
        for given in asked
        for group in (Group(wire),)
    ]


@case()
def protocols_of_a_second_join(wire: Wire) -> object:
    group = Group(wire)
    group.settle(protocols=protocols("range", "sticky"))
    asked: tuple[dict[str, Any], ...] = (
        {"protocol_type": ""},
        {"protocol_type": "connect"},
        {"protocols": []},
        {"protocols": protocols("other")},
        {"protocols": protocols("other", "sticky")},
    )
    return [group.another().join(**given).error_code.name for given in asked]


@case()
def a_protocol_is_voted_for(wire: Wire) -> object:
    first = Group(wire)
    leader = first.settle(protocols=protocols("a", "b", "c")).member_id
    others = [first.another() for _ in range(2)]
    for each, names in zip(others, (("c", "b", "a"), ("x", "c", "a")), strict=True):
        each.send_enter(protocols=protocols(*names))
    wait_until_called(first, leader)
    answers = [
        first.join(leader, protocols=protocols("a", "b", "c")),
        *(each.wire.receive() for each in others),
    ]
    return [(one.protocol_name, one.generation_id, len(one.members)) for one in answers]


@case()
def a_second_member(wire: Wire) -> object:
    first = Group(wire)
    leader = first.settle().member_id
    second = first.another()
    answers = rebalanced(first, second, leader)
    second.send_sync(answers[1].member_id, 2)
    led = first.sync(leader, 2, {leader: b"to the first", answers[1].member_id: b"to the second"})
    return [first.shown(each) for each in (*answers, led, second.wire.receive())]


@case()
def a_follower_that_waits_is_called_to_join_again(wire: Wire) -> object:
    first, leader, second, follower = two(wire)
    for group, member_id in ((first, leader), (second, follower)):
        group.send_join(member_id, protocols=protocols("range", metadata=OTHER_SUBSCRIPTION))
    joined = [each.wire.receive() for each in (first, second)]
    second.send_sync(follower, 3)
    third = first.another()
    third.send_enter()
    return first.shown([*map(first.shown, joined), first.shown(second.wire.receive())])


@case()
def joins_anew_that_change_nothing(wire: Wire) -> object:
    """A follower's is answered at once; a leader's makes everybody join."""
    first, leader, second, follower = two(wire)
    again = second.join(follower)
    beats = [first.heartbeat(leader, 2), second.heartbeat(follower, 2)]
    first.send_join(leader)
    wait_until_called(second, follower, 2)
    second.send_join(follower)
    return first.shown(
        [first.shown(again), beats, *map(first.shown, (first.wire.receive(), second.wire.receive()))]
    )


@case()
def joins_anew_before_the_assignment(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.enter().member_id
    same = group.join(member_id)
    changed = group.join(member_id, protocols=protocols("range", metadata=OTHER_SUBSCRIPTION))
    return [group.shown(same), group.shown(changed)]


@case()
def joins_anew_with_other_protocols(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.settle(protocols=protocols("a", "b")).member_id
    return [
        group.shown(group.join(member_id, **given))
        for given in (
            {"protocols": protocols("b")},
            {"protocols": protocols("c")},
            {"protocol_type": "connect", "protocols": protocols("c")},
            {"protocols": []},
        )
    ]


@case()
def an_id_that_was_given_out_before_the_assignment(wire: Wire) -> object:
    """Who joins between two generations sends everybody back."""
    first = Group(wire)
    leader = first.enter().member_id
    second = first.another()
    follower = second.send_enter()
    wait_until_called(first, leader)
    synced = first.sync(leader, 1, {leader: b"all"})
    joined = first.join(leader)
    return first.shown(synced), first.shown(joined), first.shown(second.wire.receive()), first.shown(follower)


@case()
def a_member_with_other_timeouts(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.settle().member_id
    joins = [
        group.join(member_id, session_timeout=timeout).error_code.name
        for timeout in (7_000, 5_000, 1_800_001)
    ]
    return joins, group.heartbeat(member_id, 2)


@case()
def protocols_that_only_the_others_had(wire: Wire) -> object:
    """Once the one that knew no other has left, its protocol may go."""
    first = Group(wire)
    leader = first.settle(protocols=protocols("a")).member_id
    second = first.another()
    refused = second.join(protocols=protocols("b"))
    second.send_enter(protocols=protocols("b", "a"))
    wait_until_called(first, leader)
    first.send_join(leader, protocols=protocols("a"))
    joined = [first.shown(each.wire.receive()) for each in (first, second)]
    first.leave((leader, None))
    third = first.another()
    return refused.error_code.name, joined, third.join(protocols=protocols("b")).error_code.name


# Syncing


@case()
def syncs_of_the_wrong_ones(wire: Wire) -> object:
    group = Group(wire)
    unknown = group.sync("nobody", 1)
    member_id = group.enter().member_id
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("nobody", 1, {}),
        (member_id, 0, {}),
        (member_id, 2, {}),
        (member_id, -1, {}),
        (member_id, 1, {"group_instance_id": "static"}),
        (member_id, 1, {"protocol_type": "connect"}),
        (member_id, 1, {"protocol_name": "other"}),
        (member_id, 1, {"protocol_type": None, "protocol_name": None}),
        (member_id, 1, {"protocol_type": None}),
        (member_id, 1, {"group_id": ""}),
    )
    told = [group.shown(group.sync(one, number, **given)) for one, number, given in asked]
    return [group.shown(unknown), told, group.shown(group.sync(member_id, 1))]


@case()
def syncs_of_older_versions_say_no_protocol(wire: Wire) -> object:
    found = []
    for version in range(6):
        group = Group(wire)
        member_id = group.enter().member_id
        found.append(group.shown(group.sync(member_id, 1, {member_id: b"all"}, version=version)))
    return found


@case()
def assignments_of_strangers(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.enter().member_id
    synced = group.sync(member_id, 1, {"nobody": b"all"})
    return group.shown(synced), group.described()["members"]


@case()
def syncs_during_a_rebalance(wire: Wire) -> object:
    first, leader, _, follower = two(wire)
    third = first.another()
    third.send_enter()
    wait_until_called(first, leader, 2)
    return [first.shown(first.sync(one, 2)) for one in (leader, follower)]


# Heartbeats


@case()
def heartbeats_of_the_wrong_ones(wire: Wire) -> object:
    group = Group(wire)
    found = [group.heartbeat("nobody", 1)]
    member_id = group.enter().member_id
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("nobody", 1, {}),
        ("", 1, {}),
        (member_id, 0, {}),
        (member_id, 2, {}),
        (member_id, -1, {}),
        (member_id, 1, {"group_instance_id": "static"}),
        (member_id, 1, {"group_id": ""}),
        (member_id, 1, {}),
    )
    found += [group.heartbeat(one, number, **given) for one, number, given in asked]
    pending = group.another().join().member_id
    return [*found, group.heartbeat(pending, 1)]


@case()
def heartbeats_in_each_state(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.enter().member_id
    completing = group.heartbeat(member_id, 1)
    group.sync(member_id, 1, {member_id: b"all"})
    stable = group.heartbeat(member_id, 1)
    second = group.another()
    second.send_enter()
    wait_until_called(group, member_id)
    preparing = [group.heartbeat(member_id, number) for number in (1, 2)]
    group.leave((member_id, None))
    return completing, stable, preparing, group.heartbeat(member_id, 1)


# Leaving


@case()
def leaves_of_the_wrong_ones(wire: Wire) -> object:
    group = Group(wire)
    unknown = [group.shown(group.leave(("nobody", None), version=version)) for version in range(6)]
    member_id = group.settle().member_id
    asked = (("nobody", None), ("", None), ("", "static"), (member_id, "static"))
    one_by_one = [group.shown(group.leave(each)) for each in asked]
    return unknown, one_by_one, group.shown(group.leave(*asked)), group.heartbeat(member_id, 1)


@case()
def leaves_of_a_group_without_a_name(wire: Wire) -> object:
    group = Group(wire, "")
    return [group.shown(group.leave(("nobody", None), version=version)) for version in range(6)]


@case()
def several_leave(wire: Wire) -> object:
    first, leader, _, follower = two(wire)
    left = first.leave((follower, None), ("nobody", None), (follower, None), (leader, None))
    return first.shown(left), first.described()


@case()
def nobody_leaves(wire: Wire) -> object:
    group = Group(wire)
    group.settle()
    return [group.shown(group.leave(version=version)) for version in (3, 4, 5)]


@case()
def who_has_only_an_id_leaves(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.join().member_id
    left = group.shown(group.leave((member_id, None)))
    return left, group.shown(group.join(member_id)), group.shown(group.leave((member_id, None)))


@case()
def a_leader_leaves(wire: Wire) -> object:
    first, leader, second, follower = two(wire)
    left = first.shown(first.leave((leader, None)))
    beat = second.heartbeat(follower, 2)
    return left, beat, first.shown(second.join(follower))


@case()
def the_last_one_leaves_and_another_comes(wire: Wire) -> object:
    group = Group(wire)
    group.leave((group.settle(protocol_type="connect").member_id, None))
    empty = group.described()
    return empty, group.shown(group.enter(protocols=protocols("other"))), group.described()
