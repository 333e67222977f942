"""Fields of everyday requests, each with values that make a difference."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain, records


def _list(wire: Wire, topic: str, *, partition: int = 0, epoch: int = -1, isolation: int = 0) -> object:
    asked = [
        {
            "name": topic,
            "partitions": [{"partition_index": partition, "current_leader_epoch": epoch, "timestamp": -1}],
        }
    ]
    answer = wire.ask("list_offsets", 6, replica_id=-1, isolation_level=isolation, topics=asked)
    return plain(answer.topics[0].partitions)


@case()
def records_read_back(wire: Wire) -> object:
    topic = wire.new_topic()
    data = [
        {"name": topic, "partition_data": [{"index": 0, "records": records(b"a", b"b", timestamp_ms=5_000)}]}
    ]
    wire.ask("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    fetched = _fetch_partition(wire, topic)
    return fetched.records.hex()


@case()
def timestamps_of_a_list(wire: Wire) -> object:
    topic = wire.new_topic()
    for stamp_ms in (1_000, 3_000):
        batch = {"index": 0, "records": records(b"v", timestamp_ms=stamp_ms)}
        data = [{"name": topic, "partition_data": [batch]}]
        wire.ask("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    found = []
    for stamp_ms in (-2, -1, 0, 1_000, 1_001, 3_000, 3_001):
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": stamp_ms}
        asked = [{"name": topic, "partitions": [partition]}]
        answer = wire.ask("list_offsets", 6, replica_id=-1, isolation_level=0, topics=asked)
        found.append(plain(answer.topics[0].partitions))
    return found


@case()
def leader_epochs_of_a_list(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_list(wire, topic, epoch=epoch) for epoch in (-1, 0, 5)]


@case()
def isolation_levels_of_a_list(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_list(wire, topic, isolation=level) for level in (0, 1)]


@case()
def partitions_of_a_list(wire: Wire) -> object:
    topic = wire.new_topic(2)
    wire.produce(topic, b"v", partition=1)
    return [_list(wire, topic, partition=number) for number in (0, 1, 2, -1)]


@case()
def leader_epochs_of_the_end_of_an_epoch(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v", b"w")
    found = []
    for current, asked in ((-1, 0), (0, 0), (5, 0), (-1, 3), (-1, -1)):
        partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": asked}
        topics = [{"topic": topic, "partitions": [partition, {**partition, "partition": 9}]}]
        found.append(plain(wire.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)))
    return found


def _fetch_partition(wire: Wire, topic: str, **given: Any) -> Any:
    return wire.fetch(topic, **given).responses[0].partitions[0]


def _fetch(wire: Wire, topic: str, **given: Any) -> tuple[str, int, int]:
    found = _fetch_partition(wire, topic, **given)
    return found.error_code.name, found.high_watermark, len(found.records or b"")


def _three_batches(wire: Wire) -> str:
    topic = wire.new_topic()
    for _ in range(3):
        wire.produce(topic, b"x" * 1000)
    return topic


@case()
def bounds_of_a_fetch(wire: Wire) -> object:
    topic = _three_batches(wire)
    return [
        _fetch(wire, topic),
        _fetch(wire, topic, max_bytes=1),
        _fetch(wire, topic, partition={"partition_max_bytes": 1}),
    ]


@case(
    because="semel gives whole batches; Apache Kafka cuts the last one off in its middle, for clients to skip",
    semel=[2140, 2140],
    kafka=[2500, 2500],
)
def bounds_inside_a_batch(wire: Wire) -> object:
    topic = _three_batches(wire)
    cut = (_fetch(wire, topic, max_bytes=2500), _fetch(wire, topic, partition={"partition_max_bytes": 2500}))
    return [size for *_, size in cut]


@case()
def places_of_a_fetch(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"x")
    places = ({"fetch_offset": 1}, {"fetch_offset": 2}, {"fetch_offset": -1}, {"partition": 3})
    epochs = ({"current_leader_epoch": 0}, {"current_leader_epoch": 4})
    return [_fetch(wire, topic, partition=given)[0] for given in (*places, *epochs)]


@case()
def waits_of_a_fetch(wire: Wire) -> object:
    """Less than what is wanted is answered when the time is over, with what there is."""
    topic = wire.new_topic()
    wire.produce(topic, b"x")
    return [_fetch(wire, topic, min_bytes=100_000, max_wait=wait) for wait in (0, 50)]


@case()
def isolation_levels_of_a_fetch(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"x")
    return [_fetch(wire, topic, isolation_level=level) for level in (0, 1)]


@case()
def places_of_a_produce(wire: Wire) -> object:
    topic = wire.new_topic(2)
    found = []
    for name, number in ((topic, 0), (topic, 1), (topic, 2), (wire.name("x" * 240), 0)):
        data = [{"name": name, "partition_data": [{"index": number, "records": records(b"v")}]}]
        answer = wire.ask("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
        found.append([(one.index, one.error_code.name) for one in answer.responses[0].partition_responses])
    return found


@case()
def topics_of_a_metadata(wire: Wire) -> object:
    topic = wire.new_topic(2)
    found = []
    for version in (1, 4, 8, 9, 12, 13):
        asked = [{"name": topic, "topic_id": None}, {"name": wire.name(), "topic_id": None}]
        answer = wire.ask(
            "metadata",
            version,
            topics=asked[:1] if version < 4 else asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        found.append(
            sorted(
                (one.error_code.name, one.name, sorted(each.partition_index for each in one.partitions))
                for one in answer.topics
            )
        )
    return found


@case()
def no_topics_of_a_metadata(wire: Wire) -> object:
    topic = wire.new_topic()
    given = {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    every = [
        any(one.name == topic for one in wire.ask("metadata", version, topics=topics, **given).topics)
        for version, topics in ((0, []), (1, None), (12, None))
    ]
    none = [len(wire.ask("metadata", version, topics=[], **given).topics) for version in (1, 12)]
    return every, none


@case()
def topics_by_id(wire: Wire) -> object:
    topic = wire.new_topic()
    answer = wire.ask(
        "metadata",
        12,
        topics=[{"name": None, "topic_id": wire.topic_id(topic)}],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    return [(one.error_code.name, one.name) for one in answer.topics]


@case()
def topics_that_a_metadata_makes(wire: Wire) -> object:
    asked = [wire.name(), wire.name()]
    for name, allowed in zip(asked, (True, False), strict=True):
        wire.ask(
            "metadata",
            8,
            topics=[{"name": name}],
            allow_auto_topic_creation=allowed,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    wire.catch_up()
    answer = wire.ask("metadata", 1, topics=None)
    return [any(one.name == name for one in answer.topics) for name in asked]


@case()
def records_deleted(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"a", b"b", b"c")
    found = []
    for name, number, offset in ((topic, 0, 2), (topic, 0, 1), (topic, 0, 9), (topic, 0, -1), (topic, 4, 0)):
        asked = [{"name": name, "partitions": [{"partition_index": number, "offset": offset}]}]
        answer = wire.ask("delete_records", 2, topics=asked, timeout=10_000)
        found.append(plain(answer.topics[0].partitions))
    return found


@case()
def producers_described(wire: Wire) -> object:
    topic = wire.new_topic()
    asked = [{"name": topic, "partition_indexes": [0, 5]}]
    return plain(wire.ask("describe_producers", 0, topics=asked), "error_message")


def _mark(wire: Wire, topic: str, **given: Any) -> Any:
    marker = {
        "producer_id": 4711,
        "producer_epoch": 3,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        **given,
    }
    answer = wire.ask("write_txn_markers", 1, markers=[marker])
    return plain(answer.markers)


@case()
def markers(wire: Wire) -> object:
    topic = wire.new_topic()
    return [
        _mark(wire, topic),
        _mark(wire, topic, producer_epoch=2),
        _mark(wire, topic, topics=[{"name": topic, "partition_indexes": [7]}]),
    ]


@case()
def coordinators_found(wire: Wire) -> object:
    def several() -> list[Any]:
        answer = wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g", "h"])
        return list(answer.coordinators)

    groups = wire.coordinated(several)
    named = wire.coordinated(lambda: wire.ask("find_coordinator", 1, key_type=1, key="x"))
    return [(one.key, one.node_id, one.host, one.error_code.name) for one in groups], (
        named.node_id,
        named.host,
        named.error_code.name,
    )


@case(
    because="one server coordinates all transactions for ever: there is no older coordinator that could come late",
    semel=["none", "none"],
    kafka=["none", "transaction_coordinator_fenced"],
)
def markers_of_older_coordinators(wire: Wire) -> object:
    topic = wire.new_topic()
    marked = [_mark(wire, topic, coordinator_epoch=epoch) for epoch in (3, 2)]
    return [one["error_code"] for answer in marked for one in answer[0]["topics"][0]["partitions"]]


@case(
    because="a commit is the coordinator's alone: from a client a marker only ever fences, as an abort does",
    semel=["invalid_request"],
    kafka=["none"],
)
def markers_of_a_commit(wire: Wire) -> object:
    marked = _mark(wire, wire.new_topic(), transaction_result=True)
    return [one["error_code"] for one in marked[0]["topics"][0]["partitions"]]
