"""What a client that is nobody in particular may do, when it asks: everything, without authorization."""

from __future__ import annotations

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
def metadata_not_asked_for(wire: Wire) -> object:
    return {version: _metadata(wire, version, topics=False, cluster=False) for version in range(8, 14)}
