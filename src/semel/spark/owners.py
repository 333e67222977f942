"""Whose topic it is that somebody is about to write: asked before anything is written, and only of names like it."""

from __future__ import annotations

from semel.client.blocking import Cluster
from semel.core.sink.own_topics import (
    OWN_TOPIC_CONFIGS,
    flow_that_may_own,
    foreign_output,
    stages_that_may_own,
)
from semel.errors import ConfigError
from semel.spark.options import Connection
from semel.spark.sink_log import SinkLog, remembered, topic_partition_count
from semel.types import SINKS_TOPIC


def owner_of(cluster: Cluster, connection: Connection, topic: str) -> str | None:
    """The flow that has made ``topic`` for itself, as the decision log knows it; ``None``: no flow has.

    A flow's topics are made before its stages begin, with settings that a user's topic hardly has. So of most topics
    nothing more is asked.
    """
    stages, flow = stages_that_may_own(topic), flow_that_may_own(topic)
    if not stages or topic_partition_count(cluster, topic) is None:
        return None
    configs = cluster.describe_configs([topic])[topic]
    if any(name not in configs or configs[name].value != value for name, value in OWN_TOPIC_CONFIGS.items()):
        return None
    if topic_partition_count(cluster, SINKS_TOPIC) is None:
        return None
    for sink_id in stages:
        history = SinkLog(connection, sink_id).history()
        is_output = sink_id.replace("/", ".") == topic
        if history.fence is not None and (not is_output or not history.outputs or topic in history.outputs):
            return sink_id.partition("/")[0]
    if flow is None:
        return None
    is_begun = any(
        sink_id.startswith(f"{flow}/") and history.fence is not None
        for sink_id, history in remembered(cluster).items()
    )
    return flow if is_begun else None


def refuse_foreign_output(cluster: Cluster, connection: Connection, topic: str | None, stored: str) -> None:
    """``ConfigError`` for a topic of a flow's own; ``stored`` says what was written so far."""
    flow = None if topic is None else owner_of(cluster, connection, topic)
    if topic is not None and flow is not None:
        raise ConfigError(f"{foreign_output(topic, flow)}. {stored}")
