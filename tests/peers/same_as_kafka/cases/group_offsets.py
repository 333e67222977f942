"""Offsets of groups that have members, and of those that have none: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import time
from typing import Any

from tests.core.group.members import subscription
from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.grouping import Group, protocols, two, wait_until_called

# Commits


@case()
def commits_in_every_version(wire: Wire) -> object:
    """By nobody to a group without members, by a member, by nobody to its group, and once it has left."""
    topic = wire.new_topic()
    found = {}
    for version in range(2, 10):
        group = Group(wire)
        codes = [group.commit(topic, 1, version=version)]
        member_id = group.settle().member_id
        codes += [
            group.commit(topic, 2, member_id, 1, version=version),
            group.commit(topic, 3, version=version),
            group.commit(topic, 4, "nobody", 1, version=version),
            group.commit(topic, 5, member_id, 0, version=version),
            group.commit(topic, 6, member_id, 2, version=version),
            group.commit(topic, 7, member_id, -1, version=version),
        ]
        group.leave((member_id, None))
        codes += [
            group.commit(topic, 8, member_id, 1, version=version),
            group.commit(topic, 9, version=version),
        ]
        found[version] = codes, group.shown(group.committed([topic], 7))
    return found


@case()
def commits_to_a_group_that_is_not_there(wire: Wire) -> object:
    topic = wire.new_topic()
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("", -1, {}),
        ("m", -1, {}),
        ("", 0, {}),
        ("m", 1, {}),
        ("m", -1, {"group_instance_id": "one"}),
        ("", -2, {}),
    )
    return [
        Group(wire).commit(topic, 1, *who, version=version, **given)
        for *who, given in asked
        for version in (8, 9)
    ]


@case()
def commits_in_each_state(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    pending = group.join().member_id
    found = [group.commit(topic, 1), group.commit(topic, 2, pending, 0), group.commit(topic, 3, pending, -1)]
    member_id = group.join(pending).member_id
    found += [group.commit(topic, 4, member_id, 1), group.commit(topic, 5)]
    group.sync(member_id, 1, {member_id: b"all"})
    found += [group.commit(topic, 6, member_id, 1)]
    second = group.another()
    second.send_enter()
    wait_until_called(group, member_id)
    found += [group.commit(topic, 7, member_id, 1), group.commit(topic, 8, member_id, 2)]
    return found, group.shown(group.committed([topic], 7))


@case()
def commits_of_static_members(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    old_id = group.settle(group_instance_id="one").member_id
    new_id = group.join("", group_instance_id="one").member_id
    return [
        group.commit(topic, 1, member_id, 1, group_instance_id=instance)
        for member_id, instance in (
            (old_id, "one"),
            (new_id, "one"),
            (new_id, "two"),
            (new_id, None),
            ("", "one"),
        )
    ]


@case()
def commits_of_a_group_of_another_kind(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    given = {"protocol_type": "connect", "protocols": protocols("x", metadata=b"")}
    member_id = group.settle(**given).member_id
    return group.commit(topic, 1), group.commit(topic, 2, member_id, 1), group.shown(group.committed(None))


@case()
def metadata_of_a_commit(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    found = []
    for metadata in (None, "", "m" * 4096, "m" * 4097):
        partition = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": 0}
        topics = [{"name": topic, "partitions": [{**partition, "committed_metadata": metadata}]}]
        codes = group.commit(topic, topics=topics)
        (told,) = group.committed([topic], 7).topics[0].partitions
        found.append((codes, len(told.metadata)))
    return found


@case()
def offsets_of_no_record(wire: Wire) -> object:
    """Below 0 as well: some clients commit "the earliest" (-2) and "the latest" (-1)."""
    topic = wire.new_topic()
    group = Group(wire)
    offsets = (0, 2**62, -1, -2, -3, -(2**63))
    return [
        (group.commit(topic, offset, version=version), group.shown(group.committed([topic], 7)))
        for version in (2, 9)
        for offset in offsets
    ]


# Fetches


@case()
def fetches_in_every_version(wire: Wire) -> object:
    """What a group has of a topic, of one it has nothing of, of one that is not there, and of all."""
    topic, other, gone = wire.new_topic(), wire.new_topic(), wire.name()
    group = Group(wire)
    group.commit(topic, 7)
    nobody = Group(wire)
    found = {}
    for version in range(1, 10):
        asked = [[topic], [other], [gone], []] + ([None] if version >= 2 else [])
        found[version] = [
            one.shown(one.committed(topics, version)) for one in (group, nobody) for topics in asked
        ]
    return found


@case()
def fetches_of_members(wire: Wire) -> object:
    """By the classic protocol neither member nor epoch are looked at."""
    topic = wire.new_topic()
    group = Group(wire)
    member_id = group.settle().member_id
    group.commit(topic, 7, member_id, 1)
    return [
        group.shown(group.committed([topic], 9, member_id=who, member_epoch=epoch))
        for who, epoch in ((member_id, 1), (member_id, 0), ("nobody", 1), ("nobody", -1), (None, 3))
    ]


@case()
def fetches_during_a_rebalance(wire: Wire) -> object:
    topic = wire.new_topic()
    first, leader, *_ = two(wire)
    first.commit(topic, 7, leader, 2)
    first.another().send_enter()
    wait_until_called(first, leader, 2)
    return first.shown(first.committed([topic], 7)), first.shown(first.committed([topic], 9))


@case()
def fetches_of_several_groups(wire: Wire) -> object:
    topic = wire.new_topic()
    group, nobody = Group(wire), Group(wire)
    group.commit(topic, 7)
    named = [{"name": topic, "partition_indexes": [0, 1]}]
    asked = [
        {"group_id": one.id, "topics": topics, "member_id": None, "member_epoch": -1}
        for one, topics in ((group, named), (nobody, None), (Group(wire, ""), named))
    ]
    answer = wire.ask("offset_fetch", 9, groups=asked, require_stable=False)
    return [group.shown(one) for one in answer.groups]


# Deletes


@case()
def deletes_of_what_is_not_there(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    unknown = group.delete_offsets(topic)
    empty = Group(wire, "").delete_offsets(topic)
    group.commit(topic)
    return [
        unknown,
        empty,
        group.delete_offsets(wire.name()),
        group.delete_offsets(topic, partition=9),
        group.delete_offsets(),
        group.delete_offsets(topic),
        group.shown(group.committed([topic])),
    ]


@case(
    because="a group that had no members is what it has committed; Apache Kafka keeps its name for ten minutes",
    semel=(0, "group_id_not_found"),
    kafka=(1, "none"),
)
def the_last_offset_of_a_group_is_deleted(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic)
    assert group.delete_offsets(topic) == ("none", [(0, "none")])
    return len(group.listed()), group.delete()


@case()
def offsets_of_topics_that_members_read(wire: Wire) -> object:
    read, other = wire.new_topic(), wire.new_topic()
    first = Group(wire)
    given = {"protocols": protocols("range", metadata=subscription([read]))}
    member_id = first.enter(**given).member_id
    completing = first.delete_offsets(read, other)
    first.sync(member_id, 1, {member_id: b"all"})
    for topic in (read, other):
        first.commit(topic, 5, member_id, 1)
    stable = first.delete_offsets(read, other)
    second = first.another()
    second.send_enter(protocols=protocols("range", metadata=subscription([other])))
    wait_until_called(first, member_id)
    preparing = first.delete_offsets(read, other)
    kept = first.shown(first.committed([read, other]))
    first.leave((member_id, None))
    return completing, stable, preparing, kept, first.delete_offsets(read, other)


@case()
def offsets_of_a_group_that_is_empty(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    given = {"protocols": protocols("range", metadata=subscription([topic]))}
    member_id = group.settle(**given).member_id
    group.commit(topic, 5, member_id, 1)
    group.leave((member_id, None))
    return group.delete_offsets(topic), group.shown(group.committed([topic])), group.described()


@case()
def offsets_of_a_group_of_another_kind(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    given = {"protocol_type": "connect", "protocols": protocols("x", metadata=b"")}
    member_id = group.settle(**given).member_id
    group.commit(topic, 5, member_id, 1)
    full = group.delete_offsets(topic)
    group.leave((member_id, None))
    return full, group.delete_offsets(topic)


@case()
def offsets_of_members_that_nobody_understands(wire: Wire) -> object:
    """What a consumer says of itself in no form that is known."""
    topic = wire.new_topic()
    group = Group(wire)
    member_id = group.settle(protocols=protocols("range", metadata=b"x")).member_id
    group.commit(topic, 5, member_id, 1)
    return group.delete_offsets(topic)


@case()
def offsets_of_a_topic_that_is_deleted(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic)
    wire.ask("delete_topics", 6, topics=[{"name": topic, "topic_id": None}], timeout=10_000)
    wire.catch_up()

    def all_of_it() -> Any:
        return group.shown(group.committed(None))

    give_up_s = time.monotonic() + 30
    while all_of_it()["topics"]:
        assert time.monotonic() < give_up_s, all_of_it()
        time.sleep(0.01)
    return group.shown(group.committed([topic])), all_of_it()


@case()
def partitions_committed_more_than_once(wire: Wire) -> object:
    topic, other = wire.new_topic(), wire.new_topic()
    group = Group(wire)

    def place(name: str, *offsets: int) -> dict[str, Any]:
        partition = {"partition_index": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
        return {"name": name, "partitions": [{**partition, "committed_offset": one} for one in offsets]}

    topics = [place(topic, 5, 7), place(other, 1), place(topic, 6)]
    codes = group.commit(topic, topics=topics)
    return codes, group.shown(group.committed([topic, other], 7))


@case()
def a_member_joins_a_group_that_had_only_offsets(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic, 5)
    member_id = group.settle().member_id
    codes = [group.commit(topic, 6), group.commit(topic, 7, member_id, 1)]
    group.leave((member_id, None))
    return codes, group.described(), group.shown(group.committed([topic])), group.delete()
