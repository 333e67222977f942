"""Answers with all that is in them, but for what cannot be the same on two servers."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case, plain, records

from semel.record.batch import Record, encode_batch


@case()
def metadata(wire: Wire) -> object:
    topic = wire.new_topic(2)
    found = {}
    for version in range(14):
        answer = wire.ask(
            "metadata",
            version,
            topics=[{"name": topic, "topic_id": None}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        found[version] = plain(answer, "topic_id", "cluster_id", "port", "partitions")
        partitions = sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)
        found[version]["partitions"] = plain(tuple(partitions))
    return found


@case()
def produce(wire: Wire) -> object:
    topic = wire.new_topic()
    found = {}
    for version in range(3, 13):
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records(b"v")}]}]
        answer = wire.ask("produce", version, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
        found[version] = plain(answer)
    return found


@case()
def produce_that_is_refused(wire: Wire) -> object:
    topic = wire.new_topic()
    torn = bytearray(records(b"v"))
    torn[-1] ^= 1
    found = {}
    for version in (3, 8, 9, 12):
        for name, batch in ((topic, bytes(torn)), (topic, b""), (wire.name("x" * 240), records(b"v"))):
            data = [{"name": name, "partition_data": [{"index": 0, "records": batch}]}]
            answer = wire.another().ask(
                "produce", version, transactional_id=None, acks=-1, timeout=10_000, topic_data=data
            )
            found[version, len(batch), len(name)] = plain(answer, "error_message", "name")
    return found


@case()
def init_producer_id(wire: Wire) -> object:
    found = {}
    for version in range(6):
        asked = {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
        answer = wire.coordinated(
            lambda version=version, asked=asked: wire.ask(
                "init_producer_id", version, transactional_id=None, **asked
            )
        )
        found[version] = plain(answer, "producer_id")
    return found


@case()
def create_topics(wire: Wire) -> object:
    found = {}
    for version in range(2, 8):
        asked = {"num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        topics = [{"name": wire.name(), **asked}, {"name": "a b", **asked}]
        answer = wire.ask("create_topics", version, topics=topics, timeout=10_000, validate_only=False)
        told = sorted(answer.topics, key=lambda one: one.name)
        found[version] = [plain(one, "topic_id", "configs", "error_message") for one in told]
    return found


@case()
def fetch(wire: Wire) -> object:
    topic = wire.new_topic()
    given = records(b"v", timestamp_ms=5_000)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": given}]}]
    wire.ask("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    partition = {
        "partition": 0,
        "current_leader_epoch": 0,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    found = {}
    for version in range(4, 17):
        answer = wire.ask(
            "fetch",
            version,
            replica_id=-1,
            max_wait=0,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": topic, "topic_id": wire.topic_id(topic), "partitions": [partition]}],
            forgotten_topics_data=[],
            rack_id="",
        )
        found[version] = plain(answer, "topic_id", "session_id")
    return found


@case()
def list_offsets(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"v")
    found = {}
    for version in range(1, 7):
        for stamp_ms in (-2, -1, 2**60):
            partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": stamp_ms}
            asked = [{"name": topic, "partitions": [partition, {**partition, "partition_index": 9}]}]
            answer = wire.ask("list_offsets", version, replica_id=-1, isolation_level=0, topics=asked)
            told = sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)
            found[version, stamp_ms] = plain(tuple(told))
    return found


@case()
def committed_offsets(wire: Wire) -> object:
    topic, group = wire.new_topic(), wire.name("group")
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    asked = [{"name": topic, "partitions": [{**partition, "committed_leader_epoch": -1}]}]
    wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=[group])
    commits = {
        version: plain(
            wire.coordinated(
                lambda version=version: wire.ask(
                    "offset_commit",
                    version,
                    group_id=group,
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    group_instance_id=None,
                    retention_time=-1,
                    topics=asked,
                )
            )
        )
        for version in range(2, 10)
    }
    wanted = [{"name": topic, "partition_indexes": [0]}]
    fetches = {}
    for version in range(1, 10):
        given = (
            {"group_id": group, "topics": wanted}
            if version < 8
            else {"groups": [{"group_id": group, "topics": wanted, "member_id": None, "member_epoch": -1}]}
        )
        fetches[version] = plain(wire.ask("offset_fetch", version, require_stable=False, **given))
    return commits, fetches


@case()
def find_coordinator(wire: Wire) -> object:
    found = {}
    for version in range(6):
        given = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
        answer = wire.coordinated(
            lambda version=version, given=given: wire.ask("find_coordinator", version, key_type=0, **given)
        )
        found[version] = plain(answer, "port", "error_message")
    return found


@case()
def delete_topics(wire: Wire) -> object:
    found = {}
    for version in range(1, 7):
        names = [wire.new_topic(), wire.name()]
        given = (
            {"topic_names": names}
            if version < 6
            else {"topics": [{"name": name, "topic_id": None} for name in names]}
        )
        answer = wire.ask("delete_topics", version, timeout=10_000, **given)
        told = sorted(answer.responses, key=lambda one: one.name)
        found[version] = [plain(one, "topic_id", "error_message") for one in told]
    return found


@case()
def delete_records(wire: Wire) -> object:
    topic = wire.new_topic()
    wire.produce(topic, b"a", b"b", b"c")
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    return [plain(wire.ask("delete_records", version, topics=asked, timeout=10_000)) for version in range(3)]


@case()
def create_partitions(wire: Wire) -> object:
    found = {}
    for version in range(4):
        topic = {"name": wire.new_topic(), "count": 2, "assignments": None}
        gone = {"name": wire.name(), "count": 2, "assignments": None}
        answer = wire.ask(
            "create_partitions", version, topics=[topic, gone], timeout=10_000, validate_only=False
        )
        found[version] = [plain(one, "error_message") for one in sorted(answer.results, key=lambda r: r.name)]
    return found


@case()
def producers(wire: Wire) -> object:
    topic = wire.new_topic()
    batch = encode_batch(
        [Record(n, 5_000, None, b"v") for n in range(3)],
        producer_id=4711,
        producer_epoch=3,
        base_sequence=0,
    )
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    wire.ask("produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    asked = [{"name": topic, "partition_indexes": [0]}]
    return plain(wire.ask("describe_producers", 0, topics=asked))


@case()
def api_versions(wire: Wire) -> object:
    """But for the ranges, and the features: Kafka's are those of a cluster of several versions, semel's its own."""
    given = {"client_software_name": "x", "client_software_version": "1"}
    left_out = ("api_keys", "supported_features", "finalized_features_epoch", "finalized_features")
    return {
        version: plain(wire.another().ask("api_versions", version, **given), *left_out)
        for version in range(5)
    }
