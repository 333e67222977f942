"""What a client that is nobody in particular may do, when it asks: everything, without authorization."""

from __future__ import annotations

from uuid import UUID

from tests.peers.same_as_kafka import Wire, case


def _metadata(wire: Wire, version: int, *, topics: bool, cluster: bool) -> object:
    asked = [{"name": wire.new_topic(), "topic_id": None}]
    answer = wire.ask(
        "metadata",
        version,
        topics=asked,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=topics,
        include_cluster_authorized_operations=cluster,
    )
    found = {"topic": answer.topics[0].topic_authorized_operations}
    if hasattr(answer, "cluster_authorized_operations"):
        found["cluster"] = answer.cluster_authorized_operations
    return found


@case()
def metadata_asked_for(wire: Wire) -> object:
    return {version: _metadata(wire, version, topics=True, cluster=True) for version in range(8, 14)}


@case()
def metadata_not_asked_for(wire: Wire) -> object:
    return {version: _metadata(wire, version, topics=False, cluster=False) for version in range(8, 14)}


@case()
def metadata_of_all_topics(wire: Wire) -> object:
    mine = wire.new_topic()
    answer = wire.ask(
        "metadata",
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    return [topic.topic_authorized_operations for topic in answer.topics if topic.name == mine]


@case()
def metadata_of_topics_that_are_not_there(wire: Wire) -> object:
    found = []
    for asked in ({"name": wire.name(), "topic_id": None}, {"name": None, "topic_id": UUID(int=7)}):
        answer = wire.ask(
            "metadata",
            12,
            topics=[asked],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        found += [(topic.error_code.name, topic.topic_authorized_operations) for topic in answer.topics]
    return found


@case()
def describe_cluster(wire: Wire) -> object:
    return {
        (version, asked): wire.ask(
            "describe_cluster",
            version,
            include_cluster_authorized_operations=asked,
            include_fenced_brokers=False,
        ).cluster_authorized_operations
        for version in (0, 1, 2)
        for asked in (False, True)
    }
