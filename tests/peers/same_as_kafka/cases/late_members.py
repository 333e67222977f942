"""Members of groups that do not come in time, each time that a rebalance waits for them."""

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


@case()
def who_does_not_join_again_in_time_is_no_member(wire: Wire) -> object:
    first, leader, second, follower = two_in_a_hurry(wire)
    second.send_join(
        follower, rebalance_timeout=SHORT_MS, protocols=protocols("range", metadata=OTHER_SUBSCRIPTION)
    )
    joined = second.wire.receive()
    beats = [first.heartbeat(leader, 2), first.heartbeat(leader, 3), second.heartbeat(follower, 3)]
    return second.shown(joined), beats, first.shown(first.join(leader))


@case()
def who_does_not_ask_for_its_part_in_time_is_no_member(wire: Wire) -> object:
    """The leader assigns; the follower never asks."""
    first = Group(wire)
    leader = first.settle().member_id
    second = first.another()
    second.send_enter(rebalance_timeout=SHORT_MS)
    wait_until_called(first, leader)
    joined = first.join(leader, rebalance_timeout=SHORT_MS)
    follower = second.wire.receive().member_id
    first.sync(leader, joined.generation_id, {leader: b"to the first", follower: b"to the second"})
    wait_until_called(first, leader, 2)
    return second.heartbeat(follower, 2), first.shown(first.join(leader, rebalance_timeout=SHORT_MS))


@case()
def a_leader_that_never_assigns_is_no_member(wire: Wire) -> object:
    first = Group(wire)
    leader = first.settle().member_id
    second = first.another()
    second.send_enter(rebalance_timeout=SHORT_MS)
    wait_until_called(first, leader)
    first.join(leader, rebalance_timeout=SHORT_MS)
    follower = second.wire.receive().member_id
    waited = second.sync(follower, 2)
    again = second.join(follower, rebalance_timeout=SHORT_MS)
    return second.shown(waited), second.shown(again), first.heartbeat(leader, 2)


@case()
def an_id_with_which_nobody_comes_back_holds_up_a_rebalance(wire: Wire) -> object:
    """For as long as a rebalance may take."""
    first = Group(wire)
    leader = first.settle().member_id
    pending = first.another().join(rebalance_timeout=SHORT_MS).member_id
    joined = first.join(leader, rebalance_timeout=SHORT_MS)
    late = first.another()
    late.send_join(pending)
    wait_until_called(first, leader, 2)
    first.send_join(leader, rebalance_timeout=SHORT_MS)
    return first.shown(joined), first.shown(first.wire.receive()), first.shown(late.wire.receive())
