"""What is written in a transaction: batches with and without partitions that were added, and offsets of groups."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.grouping import Group
from tests.peers.same_as_kafka.transacting import Transactions

# Produce


@case()
def batches_of_partitions_that_were_not_added(wire: Wire) -> object:
    room = Transactions(wire)
    topic, other = wire.new_topic(2), wire.new_topic()
    found = {}
    for version in range(3, 14):
        holder = room.producer()
        seen = [holder.write(topic, version=version)[0]]
        seen.append(room.state_of(holder.name))
        seen.append(holder.add(other))
        seen.append(holder.write(topic, version=version)[0])
        seen.append(holder.write(topic, version=version, partition=1, sequence=0)[0])
        seen.append(holder.end(commit=True, version=4))
        found[version] = seen
    return found


@case()
def batches_by_the_wrong_ones(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    found: dict[Any, Any] = {}
    for version in (3, 7, 11, 12, 13):
        holder, stranger = room.producer(), room.producer()
        holder.init()
        holder.add(topic)
        wrong: dict[str, dict[str, Any]] = {
            "no name": {"transactional_id": ""},
            "a name that nobody has": {"transactional_id": f"{holder.name}-nobody"},
            "another one's name": {"transactional_id": stranger.name},
            "another id": {"producer_id": stranger.producer_id},
            "an older epoch": {"producer_epoch": holder.producer_epoch - 1},
            "a newer epoch": {"producer_epoch": holder.producer_epoch + 1},
        }
        found[version] = (
            {
                who: holder.write(topic, version=version, sequence=0, **given)[0]
                for who, given in wrong.items()
            },
            room.described(holder.name, stranger.name),
        )
    return found


@case()
def batches_of_a_transaction_without_its_name(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    found = {}
    for version in (3, 11, 12, 13):
        holder = room.producer()
        before = holder.write(topic, version=version, transactional_id=None)
        holder.add(topic)
        found[version] = before, holder.write(topic, version=version, transactional_id=None)
    return found


@case()
def batches_of_no_transaction(wire: Wire) -> object:
    """By a producer that has a name, before, in and after a transaction, and with the name beside."""
    room = Transactions(wire)
    found: dict[Any, Any] = {}
    for version in (11, 12):
        for named in (True, False):
            topic = wire.new_topic()
            holder = room.producer()
            given: dict[str, Any] = {} if named else {"transactional_id": None}
            plain = {"version": version, "is_transactional": False, **given}
            seen: list[Any] = [holder.write(topic, **plain), room.state_of(holder.name)]
            seen.append(holder.add(topic))
            seen.append(holder.write(topic, **plain))
            seen.append(holder.write(topic, version=version))
            seen.append(holder.write(topic, **plain))
            seen.append(holder.end(commit=True, version=4))
            seen.append(holder.write(topic, **plain))
            found[version, named] = seen, room.fetched(topic), room.end_of(topic)
    return found


@case()
def late_batches(wire: Wire) -> object:
    """Of a transaction that has ended: of the epoch before, or of the same one where that stays."""
    room = Transactions(wire)
    found: dict[Any, Any] = {}
    for produced, ended in ((11, 4), (12, 5)):
        for commit in (True, False):
            topic = wire.new_topic()
            holder = room.producer()
            holder.add(topic)
            holder.write(topic, version=produced)
            late = holder.copy()
            holder.end(commit=commit, version=ended)
            seen: list[Any] = [
                late.write(topic, version=produced, sequence=0)[0],
                late.write(topic, version=produced, sequence=1)[0],
            ]
            seen.append(room.state_of(holder.name))
            found[produced, ended, commit] = seen, room.fetched(topic), room.end_of(topic)
    return found


@case()
def batches_sent_again_in_a_transaction(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    found = [holder.write(topic, b"a", b"b"), holder.write(topic, b"a", b"b", sequence=0)]
    found.append(holder.write(topic, sequence=5))
    holder.end(commit=True)
    found.append(holder.write(topic, sequence=2))
    found.append(holder.write(topic, sequence=0))
    return found, holder.end(commit=True), room.fetched(topic)


@case()
def sequences_of_older_clients_go_on(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    found: list[Any] = []
    for commit in (True, False, True):
        holder.add(topic)
        found += [holder.write(topic, version=11), holder.end(commit=commit, version=4)]
    holder.add(topic)
    found.append(holder.write(topic, version=11, sequence=0))
    return found, room.fetched(topic)


@case()
def several_partitions_in_one_transaction(wire: Wire) -> object:
    room = Transactions(wire)
    topics = [wire.new_topic() for _ in range(3)]
    holder = room.producer()
    written = [holder.write(topic) for topic in topics]
    during = [(room.end_of(topic), room.end_of(topic, 0)) for topic in topics]
    described = room.described(holder.name)
    ended = holder.end(commit=True)
    return written, during, described, ended, [room.fetched(topic) for topic in topics]


@case()
def a_topic_that_is_deleted_during_a_transaction(wire: Wire) -> object:
    room = Transactions(wire)
    topic, other = wire.new_topic(), wire.new_topic()
    holder = room.producer()
    holder.write(topic)
    holder.write(other)
    wire.ask("delete_topics", 6, topics=[{"name": topic, "topic_id": None}], timeout=10_000)
    wire.catch_up()
    return holder.end(commit=True), room.state_of(holder.name), room.fetched(other)


# TxnOffsetCommit and OffsetFetch


@case()
def offsets_without_an_add(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    found = {}
    for version in range(6):
        group = Group(wire)
        holder = room.producer()
        before = holder.commit_offsets(group.id, topic, version=version)
        state = room.described(holder.name)
        holder.add(topic)
        found[version] = [
            before,
            state,
            holder.commit_offsets(group.id, topic, version=version),
            room.described(holder.name),
            holder.end(commit=True, version=4 if version < 5 else 5),
            group.shown(group.committed([topic])),
        ]
    return found


@case()
def offsets_by_the_wrong_ones(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    found: dict[Any, Any] = {}
    for version in range(6):
        group = Group(wire)
        holder, stranger = room.producer(), room.producer()
        holder.init()
        holder.add_offsets(group.id)
        wrong: dict[str, dict[str, Any]] = {
            "no name": {"transactional_id": ""},
            "a name that nobody has": {"transactional_id": f"{holder.name}-nobody"},
            "another one's name": {"transactional_id": stranger.name},
            "another id": {"producer_id": stranger.producer_id},
            "an older epoch": {"producer_epoch": holder.producer_epoch - 1},
            "a newer epoch": {"producer_epoch": holder.producer_epoch + 1},
            "no group": {"group_id": ""},
        }
        found[version] = {
            who: holder.commit_offsets(group.id, topic, version=version, **given)
            for who, given in wrong.items()
        }
    return found


@case()
def offsets_by_members(wire: Wire) -> object:
    """KIP-447: who says to be a member is held to it, from version 3 on."""
    room = Transactions(wire)
    topic = wire.new_topic()
    group = Group(wire)
    member_id = group.settle(group_instance_id="one").member_id
    found: dict[Any, Any] = {}
    for version in range(6):
        holder = room.producer()
        holder.add_offsets(group.id)
        asked: tuple[tuple[str, int, str | None], ...] = (
            (member_id, 1, "one"),
            (member_id, 1, None),
            (member_id, 0, "one"),
            (member_id, 2, "one"),
            (member_id, -1, "one"),
            ("nobody", 1, None),
            ("nobody", 1, "one"),
            (member_id, 1, "two"),
            ("", 1, None),
            ("", -1, None),
            ("", -1, "one"),
        )
        found[version] = [
            holder.commit_offsets(
                group.id,
                topic,
                version=version,
                member_id=who,
                generation_id=generation,
                group_instance_id=instance,
            )
            for who, generation, instance in asked
        ]
        holder.end(commit=False, version=4)
    return found


@case()
def offsets_by_members_of_a_group_that_is_not_there(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    found = {}
    for version in (3, 4, 5):
        seen = []
        for who, generation in (("", -1), ("m", 1), ("m", -1), ("", 0), ("", 1)):
            holder = room.producer()
            group = Group(wire)
            holder.add_offsets(group.id)
            seen.append(
                holder.commit_offsets(
                    group.id, topic, version=version, member_id=who, generation_id=generation
                )
            )
        found[version] = seen
    return found


@case()
def offsets_of_what_is_not_there(wire: Wire) -> object:
    room = Transactions(wire)
    topic, gone = wire.new_topic(), wire.name()
    found = {}
    for version in (3, 5):
        group = Group(wire)
        holder = room.producer()
        holder.add_offsets(group.id)
        found[version] = [
            holder.commit_offsets(group.id, topic, gone, version=version),
            holder.commit_offsets(group.id, gone, version=version),
            holder.commit_offsets(group.id, version=version),
            holder.commit_offsets(group.id, topic, version=version, metadata=None),
            holder.commit_offsets(group.id, topic, version=version, metadata="m" * 4097),
            holder.end(commit=True),
            group.shown(group.committed([topic, gone])),
        ]
    return found


@case()
def offsets_that_are_pending(wire: Wire) -> object:
    """OffsetFetch, with and without ``require_stable``, while a transaction is open, and after its end."""
    room = Transactions(wire)
    topic, other = wire.new_topic(), wire.new_topic()
    found: dict[Any, Any] = {}
    for commit in (True, False):
        group = Group(wire)
        holder = room.producer()
        group.commit(topic, 3)
        group.commit(other, 4)

        def seen(group: Group = group) -> list[Any]:
            named = [{"name": topic, "partition_indexes": [0]}, {"name": other, "partition_indexes": [0]}]
            by_group = []
            for version in (7, 8, 9):
                for stable in (False, True):
                    if version < 8:
                        answer = wire.ask(
                            "offset_fetch", version, group_id=group.id, topics=named, require_stable=stable
                        )
                    else:
                        asked = {"group_id": group.id, "topics": named, "member_id": None, "member_epoch": -1}
                        answer = wire.ask(
                            "offset_fetch", version, groups=[asked], require_stable=stable
                        ).groups[0]
                    by_group.append(group.shown(answer))
            every = {"group_id": group.id, "topics": None, "member_id": None, "member_epoch": -1}
            for stable in (False, True):
                answer = wire.ask("offset_fetch", 9, groups=[every], require_stable=stable).groups[0]
                shown = group.shown(answer)
                shown["topics"] = sorted(shown["topics"], key=lambda one: str(one["name"]))
                by_group.append(shown)
            return by_group

        holder.commit_offsets(group.id, topic, offset=9)
        during = seen()
        ended = holder.end(commit=commit)
        found[commit] = during, ended, seen()
    return found


@case()
def offsets_read_back(wire: Wire) -> object:
    """Each field of what is committed, of several partitions and topics."""
    room = Transactions(wire)
    topic, other = wire.new_topic(2), wire.new_topic()
    found = {}
    for version in range(6):
        group = Group(wire)
        holder = room.producer()
        holder.add_offsets(group.id)
        topics = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": 10 + number,
                        "committed_leader_epoch": number - 1,
                        "committed_metadata": f"of {number}",
                    }
                    for number in numbers
                ],
            }
            for name, numbers in ((topic, (0, 1)), (other, (0,)))
        ]
        holder.commit_offsets(group.id, topic, other, version=version, topics=topics)
        holder.end(commit=True, version=min(version, 4))
        named = [{"name": topic, "partition_indexes": [0, 1]}, {"name": other, "partition_indexes": [0]}]
        found[version] = group.shown(
            wire.ask("offset_fetch", 7, group_id=group.id, topics=named, require_stable=True)
        )
    return found


@case()
def an_offset_is_pending_that_nobody_had_committed(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    group = Group(wire)
    holder = room.producer()
    holder.commit_offsets(group.id, topic, offset=9)
    during = [group.shown(group.committed(asked)) for asked in ([topic], None)]
    holder.end(commit=False)
    return during, [group.shown(group.committed(asked)) for asked in ([topic], None)]


@case(
    because="a group that had no members is what it has committed; Apache Kafka makes it with the first offset that is "
    "pending",
    semel=(0, 0),
    kafka=(1, 1),
)
def a_group_of_which_nothing_is_committed_yet(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    group = Group(wire)
    holder = room.producer()
    holder.commit_offsets(group.id, topic, offset=9)
    during = len(group.listed())
    holder.end(commit=False)
    return during, len(group.listed())


@case()
def an_offset_of_a_transaction_and_others(wire: Wire) -> object:
    """A commit beside a transaction, and one of another transaction: which counts in the end."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = []
    for beside in ("before", "after"):
        group = Group(wire)
        holder = room.producer()
        if beside == "before":
            group.commit(topic, 3)
        holder.commit_offsets(group.id, topic, offset=9)
        if beside == "after":
            group.commit(topic, 3)
        holder.end(commit=True)
        found.append(group.shown(group.committed([topic])))
    group = Group(wire)
    first, second = room.producer(), room.producer()
    first.commit_offsets(group.id, topic, offset=1)
    second.commit_offsets(group.id, topic, offset=2)
    first_half = [first.end(commit=True), group.shown(group.committed([topic], 7))]
    return found, first_half, second.end(commit=False), group.shown(group.committed([topic]))


@case()
def a_group_that_is_deleted_while_offsets_are_pending(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic, 3)
    holder = room.producer()
    holder.commit_offsets(group.id, topic, offset=9)
    deleted = group.delete()
    return deleted, holder.end(commit=True), group.shown(group.committed([topic]))


@case()
def offsets_deleted_while_they_are_pending(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic, 3)
    holder = room.producer()
    holder.commit_offsets(group.id, topic, offset=9)
    deleted = group.delete_offsets(topic)
    during = group.shown(group.committed([topic]))
    return deleted, during, holder.end(commit=True), group.shown(group.committed([topic]))
