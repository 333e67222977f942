"""AlterPartitionReassignments and ListPartitionReassignments where there is nowhere to move to."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.wire import NODE_ID


def _alter(wire: Wire, topic: str, number: int, replicas: list[int] | None, version: int = 1) -> Any:
    partition = {"partition_index": number, "replicas": replicas}
    return wire.ask(
        "alter_partition_reassignments",
        version,
        timeout=10_000,
        allow_replication_factor_change=True,
        topics=[{"name": topic, "partitions": [partition]}],
    )


@case()
def to_where_it_is(wire: Wire) -> object:
    topic = wire.new_topic()
    return [plain(_alter(wire, topic, 0, [NODE_ID], version)) for version in (0, 1)]


@case()
def to_where_nobody_is(wire: Wire) -> object:
    topic = wire.new_topic()
    asked = ([9], [NODE_ID, 9], [], [NODE_ID, NODE_ID], [-1])
    return {str(replicas): plain(_alter(wire, topic, 0, replicas), "error_message") for replicas in asked}


@case()
def of_what_is_not_there(wire: Wire) -> object:
    asked = [(wire.new_topic(), 4), (wire.name(), 0), ("", 0)]
    return [
        plain(_alter(wire, topic, number, replicas), "error_message")
        for topic, number in asked
        for replicas in ([NODE_ID], None)
    ]


@case()
def cancelled(wire: Wire) -> object:
    return plain(_alter(wire, wire.new_topic(), 0, None), "error_message")


@case()
def several_at_once(wire: Wire) -> object:
    topic = wire.new_topic(2)
    partitions = [
        {"partition_index": 0, "replicas": [NODE_ID]},
        {"partition_index": 1, "replicas": [9]},
        {"partition_index": 2, "replicas": None},
    ]
    answer = wire.ask(
        "alter_partition_reassignments",
        1,
        timeout=10_000,
        allow_replication_factor_change=False,
        topics=[{"name": topic, "partitions": partitions}],
    )
    return plain(answer, "error_message")


@case()
def nothing(wire: Wire) -> object:
    answer = wire.ask(
        "alter_partition_reassignments", 1, timeout=10_000, allow_replication_factor_change=False, topics=[]
    )
    return plain(answer, "error_message", "allow_replication_factor_change")


@case()
def listed(wire: Wire) -> object:
    topic = wire.new_topic()
    some = [{"name": topic, "partition_indexes": [0, 5]}, {"name": wire.name(), "partition_indexes": [0]}]
    return [
        plain(wire.ask("list_partition_reassignments", 0, timeout=10_000, topics=asked))
        for asked in (None, [], some)
    ]
