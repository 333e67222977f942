"""Fields that clients hardly ever fill in otherwise than with their defaults."""

from __future__ import annotations

from typing import Any

from tests.peers.same_as_kafka import ConnectionClosed, Wire, case, plain, records


@case(
    because="semel makes no use of a client's name, so none is wrong",
    semel=[("x", "1", "none"), ("", "1", "none"), ("x", "", "none"), ("a b", "1", "none")],
    kafka=[
        ("x", "1", "none"),
        ("", "1", "invalid_request"),
        ("x", "", "invalid_request"),
        ("a b", "1", "invalid_request"),
    ],
)
def software_names(wire: Wire) -> object:
    found = []
    for name, version in (("x", "1"), ("", "1"), ("x", ""), ("a b", "1")):
        other = wire.another()
        answer = other.ask("api_versions", 3, client_software_name=name, client_software_version=version)
        found.append((name, version, answer.error_code.name))
    return found


def _commit(wire: Wire, topic: str, version: int = 8, **given: Any) -> object:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    asked = {
        "group_id": wire.name("group"),
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [{**partition, "committed_leader_epoch": -1}]}],
        **given,
    }
    wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])  # makes the topic, in Apache Kafka

    def commit() -> object:
        answer = wire.ask("offset_commit", version, **asked)
        return [one.error_code.name for one in answer.topics[0].partitions]

    return wire.coordinated(commit)


@case()
def members_of_no_group(wire: Wire) -> object:
    topic = wire.new_topic()
    return [
        _commit(wire, topic),
        _commit(wire, topic, group_instance_id="static"),
        _commit(wire, topic, member_id="m"),
        _commit(wire, topic, generation_id_or_member_epoch=3),
        _commit(wire, topic, generation_id_or_member_epoch=3, member_id="m"),
        _commit(wire, topic, 9, member_id="m"),
    ]


@case(
    because="a group has a name; Apache Kafka takes offsets of a group without one for the sake of old clients",
    semel=["invalid_group_id"],
    kafka=["none"],
)
def a_group_without_a_name(wire: Wire) -> object:
    return _commit(wire, wire.new_topic(), group_id="")


@case()
def commits_read_back(wire: Wire) -> object:
    """By the versions of one group and those of several, of some partitions and of all."""
    topic, group = wire.new_topic(2), wire.name("group")
    partitions = [
        {
            "partition_index": n,
            "committed_offset": 7 + n,
            "committed_metadata": f"m{n}",
            "committed_leader_epoch": n,
        }
        for n in range(2)
    ]
    _commit(wire, topic, group_id=group, topics=[{"name": topic, "partitions": partitions}])
    some = [{"name": topic, "partition_indexes": [1]}]
    found = []
    for topics in (some, None):
        one = wire.ask("offset_fetch", 7, group_id=group, topics=topics, require_stable=False)
        asked = {"group_id": group, "topics": topics, "member_id": None, "member_epoch": -1}
        several = wire.ask("offset_fetch", 9, groups=[asked], require_stable=False).groups[0]
        for answer in (one, several):
            (named,) = answer.topics
            found.append((named.name, sorted(tuple(plain(each).items()) for each in named.partitions)))
    return found


@case()
def retention_of_a_commit(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_commit(wire, topic, version, retention_time=60_000) for version in (2, 3, 4)]


@case()
def commits_of_what_is_not_there(wire: Wire) -> object:
    return _commit(wire, wire.name())


def _fetch_offsets(wire: Wire, topic: str, version: int, **given: Any) -> object:
    topics = [{"name": topic, "partition_indexes": [0, 9]}]
    group = {"group_id": wire.name("group"), "topics": topics, "member_id": None, "member_epoch": -1, **given}
    wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])
    return wire.coordinated(
        lambda: plain(
            wire.ask("offset_fetch", version, groups=[group], require_stable=True).groups[0], "group_id"
        )
    )


@case()
def committed_offsets_of_nobody(wire: Wire) -> object:
    topic = wire.new_topic()
    return [
        _fetch_offsets(wire, topic, 8),
        _fetch_offsets(wire, topic, 9),
        _fetch_offsets(wire, wire.name(), 9),
    ]


@case()
def committed_offsets_for_a_member_of_no_group(wire: Wire) -> object:
    topic = wire.new_topic()
    return [
        _fetch_offsets(wire, topic, 9, member_id="m"),
        _fetch_offsets(wire, topic, 9, member_id="m", member_epoch=3),
        _fetch_offsets(wire, topic, 9, member_epoch=3),
    ]


def _init(wire: Wire, name: str | None, timeout_ms: int) -> Any:
    if name:
        wire.ask("find_coordinator", 4, key_type=1, coordinator_keys=[name])

    def init() -> object:
        answer = wire.ask(
            "init_producer_id",
            4,
            transactional_id=name,
            transaction_timeout=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        return answer.error_code.name, answer.producer_epoch

    return wire.coordinated(init)


@case()
def transaction_timeouts(wire: Wire) -> object:
    return [_init(wire, wire.name(), timeout_ms) for timeout_ms in (1, 900_000)]


@case()
def transaction_timeouts_of_no_sense(wire: Wire) -> object:
    return [_init(wire, wire.name(), timeout_ms)[0] for timeout_ms in (0, -1, 900_001)]


@case()
def transaction_timeouts_without_a_name(wire: Wire) -> object:
    return [_init(wire, None, timeout_ms)[0] for timeout_ms in (0, -1, 2**31 - 1)]


@case()
def a_name_that_is_empty(wire: Wire) -> object:
    return _init(wire, "", 1000)


def _produce(wire: Wire, topic: str, **given: Any) -> object:
    data = {"name": topic, "partition_data": [{"index": 0, "records": records(b"v")}]}
    asked = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": [data], **given}
    try:
        answer = wire.another().ask("produce", 9, **asked)
    except ConnectionClosed as closed:
        return str(closed)
    return [one.error_code.name for one in answer.responses[0].partition_responses]


@case()
def produced_under_a_transactional_id(wire: Wire) -> object:
    return _produce(wire, wire.new_topic(), transactional_id="x")


@case()
def timeouts_of_a_produce(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_produce(wire, topic, timeout=timeout) for timeout in (0, -1, 1)]


@case()
def acks_of_no_sense(wire: Wire) -> object:
    topic = wire.new_topic()
    return [_produce(wire, topic, acks=acks) for acks in (2, -2, 1)]


@case()
def timeouts_of_changes(wire: Wire) -> object:
    """How long somebody would wait: nobody has to."""
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    found = []
    for timeout in (0, 1):
        answer = wire.ask("delete_records", 2, topics=asked, timeout=timeout)
        found.append([plain(one) for one in answer.topics[0].partitions])
    return found


def _list(wire: Wire, topic: str, **given: Any) -> object:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    asked = [{"name": topic, "partitions": [partition]}]
    answer = wire.ask("list_offsets", 6, **{"replica_id": -1, "isolation_level": 0, "topics": asked, **given})
    return [plain(one) for one in answer.topics[0].partitions]


@case()
def offsets_listed_for_replicas(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_list(wire, topic, replica_id=replica) for replica in (-1, -2)]


@case()
def epochs_asked_by_replicas(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    asked = [
        {"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
    ]
    return [
        plain(wire.ask("offset_for_leader_epoch", 4, replica_id=replica, topics=asked))
        for replica in (-1, -2)
    ]


def _fetch(wire: Wire, topic: str, version: int = 12, **given: Any) -> Any:
    answer = wire.fetch(topic, version, **given)
    found = [
        (one.error_code.name, one.high_watermark, one.log_start_offset, bool(one.records))
        for topic in answer.responses
        for one in topic.partitions
    ]
    return answer.error_code.name, found


@case()
def fetches_with_a_rack(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_fetch(wire, topic, rack_id=rack) for rack in ("", "r1")]


@case()
def fetches_of_a_consumers_log_start(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_fetch(wire, topic, partition={"log_start_offset": start}) for start in (-1, 0, 7)]


@case()
def fetches_in_no_session(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    sessions = (
        *((number, epoch) for number in (-1, 5, 77) for epoch in (-2, -1, 0, 1, 5)),
        *((0, epoch) for epoch in (-2, -1, 1, 2**31 - 1)),
    )
    return [_fetch(wire, topic, session_id=number, session_epoch=epoch) for number, epoch in sessions]


@case()
def fetches_with_a_last_epoch(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    return [_fetch(wire, topic, partition={"last_fetched_epoch": epoch}) for epoch in (-1, 0)]


def _coordinator(wire: Wire, key: str, key_type: int) -> object:
    found = wire.ask("find_coordinator", 4, key_type=key_type, coordinator_keys=[key]).coordinators[0]
    return found.error_code.name


@case()
def coordinators(wire: Wire) -> object:
    wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])  # makes the topic, in Apache Kafka
    return [_coordinator(wire, "g", 5), _coordinator(wire, "g", -1)]


@case()
def coordinators_of_groups_without_a_name(wire: Wire) -> object:
    wire.coordinated(lambda: _coordinator(wire, "g", 0))
    return [_coordinator(wire, key, 0) for key in ("", "g" * 2_000)]


@case()
def coordinators_of_share_groups(wire: Wire) -> object:
    """Before version 6 there are none."""
    return _coordinator(wire, "g:AAAAAAAAAAAAAAAAAAAAAA:0", 2)
