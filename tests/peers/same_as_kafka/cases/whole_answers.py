"""Answers with all that is in them, but for what cannot be the same on two servers."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case, plain, records


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
