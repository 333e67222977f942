"""The topics of a flow: which have to be there before it starts, and how those that it makes are kept.

A flow's own topics (of key_by, merge logs, changelogs) are kept whole: a stage is replayed from them, however long
nobody looked. Its outputs are the user's, made by the server's defaults where they are missing.
"""

from __future__ import annotations

from semel.client.blocking import Cluster
from semel.core.sink.own_topics import OWN_TOPIC_CONFIGS
from semel.errors import ConfigError
from semel.flow.plan import PARTITION_COUNT, Plan
from semel.spark.sink_log import create_topic, topic_partition_count


def made_topics(cluster: Cluster, plan: Plan) -> Plan:
    """Make what is missing, and return the plan with its partition counts as they are.

    :class:`~semel.errors.ConfigError` for a source that is not there, or an own topic of another size;
    :class:`~semel.errors.FlowError` for inputs that do not fit each other. Nothing is made then.
    """
    plan = found_topics(cluster, plan)
    there = {own.name: topic_partition_count(cluster, own.name) for own in plan.own_topics}
    for own in plan.own_topics:
        count = there[own.name]
        if count is not None and count != own.partition_count:
            raise ConfigError(
                f"topic {own.name!r} of flow {plan.flow!r} has {count} partitions, and the flow is planned with "
                f"{own.partition_count}: a key, and its state, would lie elsewhere. Nothing was made or written. Plan "
                f"it with partitions={count}, or give the flow another name"
            )
    _check_kept_whole(cluster, plan, [own.name for own in plan.own_topics if there[own.name] is not None])
    for own in plan.own_topics:
        if there[own.name] is None:
            create_topic(cluster, own.name, own.partition_count, OWN_TOPIC_CONFIGS)
    counts = {stage.output.topic: stage.partition_count or PARTITION_COUNT for stage in plan.stages}
    for topic in plan.output_topics:
        if topic_partition_count(cluster, topic) is None:
            create_topic(cluster, topic, counts[topic])
    return plan


def found_topics(cluster: Cluster, plan: Plan) -> Plan:
    """The plan with its partition counts as they are; makes nothing, and raises as :func:`made_topics` does."""
    return plan.with_partition_counts(
        {topic: _count_of_source(cluster, plan, topic) for topic in plan.source_topics}
    )


def _count_of_source(cluster: Cluster, plan: Plan, topic: str) -> int:
    count = topic_partition_count(cluster, topic)
    if count is None:
        raise ConfigError(
            f"flow {plan.flow!r} reads topic {topic!r}, and there is none. Nothing was made or written. Make it with "
            f"`semel topic create {topic}`, or mend its name"
        )
    return count


def _check_kept_whole(cluster: Cluster, plan: Plan, topics: list[str]) -> None:
    """What is lost from a topic between two stages, or from a changelog, is lost in silence."""
    configs = cluster.describe_configs(topics) if topics else {}
    for topic, found in configs.items():
        for name, wanted in OWN_TOPIC_CONFIGS.items():
            value = found[name].value if name in found else wanted
            if value != wanted:
                raise ConfigError(
                    f"topic {topic!r} of flow {plan.flow!r} has {name}={value}, and is to be kept whole. Nothing was "
                    f"written. If nothing of it is lost yet, set it back with `semel topic alter-config {topic} -c "
                    f"{name}={wanted}`; else give the flow another name, under which it begins anew"
                )
