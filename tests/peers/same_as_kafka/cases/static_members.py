"""Static members of groups (KIP-345): they come again under a new id, and keep their place."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.grouping import (
    OTHER_SUBSCRIPTION,
    SHORT_MS,
    Group,
    protocols,
    two_in_a_hurry,
    wait_until_called,
)


def _settled_static(wire: Wire, version: int = 9) -> tuple[Group, str]:
    group = Group(wire)
    joined = group.join("", version, group_instance_id="one")
    member_id = joined.member_id
    group.sync(member_id, joined.generation_id, {member_id: b"all"}, group_instance_id="one")
    assert isinstance(member_id, str)
    return group, member_id


@case()
def a_static_members_first_join(wire: Wire) -> object:
    found = []
    for version in range(5, 10):
        group = Group(wire)
        found.append(group.shown(group.join("", version, group_instance_id="one")))
    return found


@case()
def a_static_leader_comes_again(wire: Wire) -> object:
    """Without a rebalance: up to version 8 it is told that its former self leads, from 9 on to assign nothing."""
    found = []
    for version in range(5, 10):
        group, old_id = _settled_static(wire)
        again = group.join("", version, group_instance_id="one")
        new_id = again.member_id
        synced = group.sync(new_id, 1, group_instance_id="one")
        beats = [group.heartbeat(one, 1, group_instance_id="one") for one in (old_id, new_id)]
        found.append([group.shown(old_id), group.shown(again), group.shown(synced), beats, group.described()])
    return found


@case()
def a_static_follower_comes_again(wire: Wire) -> object:
    found = []
    for version in range(5, 10):
        first = Group(wire)
        leader = first.settle().member_id
        second = first.another()
        second.send_join("", version, group_instance_id="one")
        wait_until_called(first, leader)
        first.send_join(leader)
        led, followed = first.wire.receive(), second.wire.receive()
        old_id = followed.member_id
        second.send_sync(old_id, 2, group_instance_id="one")
        first.sync(leader, 2, {leader: b"to the first", old_id: b"to the second"})
        second.wire.receive()
        again = second.join("", version, group_instance_id="one")
        synced = second.sync(again.member_id, 2, group_instance_id="one")
        beats = [first.heartbeat(leader, 2), second.heartbeat(old_id, 2)]
        found.append([*map(first.shown, (led, followed, again, synced)), beats])
    return found


@case()
def a_static_member_comes_again_with_another_subscription(wire: Wire) -> object:
    """The protocol stays, so there is no rebalance: it learns of its part by what it had."""
    group, _ = _settled_static(wire)
    again = group.join("", group_instance_id="one", protocols=protocols("range", metadata=OTHER_SUBSCRIPTION))
    return group.shown(again), group.described()


@case()
def a_static_member_comes_again_with_another_protocol(wire: Wire) -> object:
    group = Group(wire)
    group.settle(protocols=protocols("a", "b"), group_instance_id="one")
    again = group.join("", group_instance_id="one", protocols=protocols("b"))
    other_type = group.join("", group_instance_id="one", protocol_type="connect", protocols=protocols("b"))
    return group.shown(again), group.shown(other_type), group.described()


@case()
def a_static_member_comes_again_before_the_assignment(wire: Wire) -> object:
    group = Group(wire)
    old_id = group.join("", group_instance_id="one").member_id
    again = group.join("", group_instance_id="one")
    old = group.another()
    fenced = old.sync(old_id, 1, group_instance_id="one")
    return group.shown(old_id), group.shown(again), group.shown(fenced)


@case()
def a_group_that_a_static_member_began(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.join("", group_instance_id="one").member_id
    begun = group.described()
    group.sync(member_id, 1, {member_id: b"all"}, group_instance_id="one")
    return begun, group.described()


@case()
def a_static_member_comes_again_while_it_waits(wire: Wire) -> object:
    """Whoever waited under its name is told that it is fenced."""
    first = Group(wire)
    leader = first.settle().member_id
    second, third = first.another(), first.another()
    second.send_join("", group_instance_id="one")
    wait_until_called(first, leader)
    third.send_join("", group_instance_id="one")
    return first.shown(second.wire.receive())


@case()
def who_says_to_be_a_static_member(wire: Wire) -> object:
    group, old_id = _settled_static(wire)
    new_id = group.join("", group_instance_id="one").member_id
    joins = [
        group.another().join(member_id, group_instance_id=instance).error_code.name
        for member_id, instance in ((old_id, "one"), (new_id, "two"), ("nobody", "one"), (old_id, None))
    ]
    syncs = [
        group.sync(member_id, 1, group_instance_id=instance).error_code.name
        for member_id, instance in ((old_id, "one"), (new_id, "two"), (old_id, None), (new_id, None))
    ]
    beats = [
        group.heartbeat(member_id, 1, group_instance_id=instance)
        for member_id, instance in ((old_id, "one"), (new_id, "two"), (old_id, None), (new_id, None))
    ]
    leaves = [
        group.shown(group.leave((member_id, instance)).members)
        for member_id, instance in ((old_id, "one"), (new_id, "two"), ("", "two"), ("", "one"))
    ]
    return joins, syncs, beats, leaves, group.described()


@case()
def a_static_member_joins_anew_by_its_id(wire: Wire) -> object:
    group, member_id = _settled_static(wire)
    return group.shown(group.join(member_id, group_instance_id="one"))


@case()
def a_static_member_that_does_not_join_again_keeps_its_place(wire: Wire) -> object:
    first, leader, second, follower = two_in_a_hurry(wire, group_instance_id="one")
    joined = first.join(leader, rebalance_timeout=SHORT_MS)
    beats = [first.heartbeat(leader, 3), second.heartbeat(follower, 3), second.heartbeat(follower, 2)]
    synced = first.sync(leader, 3, {leader: b"all"})
    return first.shown(joined), beats, first.shown(synced), first.described()


@case()
def a_static_leader_that_does_not_join_again_leads_no_more(wire: Wire) -> object:
    first = Group(wire)
    leader = first.settle(group_instance_id="one", rebalance_timeout=SHORT_MS).member_id
    second = first.another()
    joined = second.enter(rebalance_timeout=SHORT_MS)
    led_by_itself = joined.leader == joined.member_id
    return led_by_itself, second.shown(joined), first.heartbeat(leader, 2), first.heartbeat(leader, 1)


@case(
    because="whoever was given an id may say who it is; Apache Kafka trips over it (an IllegalStateException)",
    semel=("none", "none"),
    kafka=("unknown_server_error", "unknown_member_id"),
)
def an_id_that_was_given_out_becomes_a_static_member(wire: Wire) -> object:
    group = Group(wire)
    pending = group.join().member_id
    joined = group.join(pending, group_instance_id="one")
    return joined.error_code.name, group.heartbeat(pending, 1, group_instance_id="one")


@case()
def a_member_says_to_be_static_later(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.settle().member_id
    return group.shown(group.join(member_id, group_instance_id="one")), group.heartbeat(member_id, 1)


@case()
def a_static_member_comes_again_during_a_rebalance(wire: Wire) -> object:
    """Its next copy joins in its place."""
    first, leader, second, follower = two_in_a_hurry(wire, group_instance_id="one")
    first.send_join(leader, protocols=protocols("range", metadata=OTHER_SUBSCRIPTION))
    wait_until_called(second, follower, 2)
    again = second.join("", group_instance_id="one")
    return (
        second.shown(again),
        first.shown(first.wire.receive()),
        second.heartbeat(follower, 3, group_instance_id="one"),
    )
