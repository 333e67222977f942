"""The topics of a flow: which have to be there before it starts, and how those that it makes are kept.

A flow's own topics (of key_by, merge logs, changelogs) are kept whole: a stage is replayed from them, however long
nobody looked. Its outputs are the user's, made by the server's defaults where they are missing.

What a source takes has to go through: a record of the flow's may be twice as large as the one that was read, for a key
is made of its columns. So the topics that a flow makes take as much, and what its outputs take is part of the plan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from semel.client.blocking import Cluster
from semel.core.sink.own_topics import OWN_TOPIC_CONFIGS
from semel.errors import ConfigError
from semel.flow.plan import PARTITION_COUNT, Plan
from semel.spark.sink_log import create_topic, topic_partition_count

MESSAGE_BYTES_MAX: Final = 1_048_588  # Kafka's default
SIZED_BYTES_MAX: Final = 64 * 2**20  # of what a flow makes larger than a source
_MORE_BYTES: Final = 64 * 1024
_SIZE: Final = "max.message.bytes"
_TIME_TYPE: Final = "message.timestamp.type"
# Of a topic whose rows have the times of their records: whatever a source took.
_ANY_TIME: Final = {
    _TIME_TYPE: "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


def made_topics(cluster: Cluster, plan: Plan) -> Plan:
    """Make what is missing, and return the plan with its partition counts as they are.

    :class:`~semel.errors.ConfigError` for a source that is not there, or an own topic of another size;
    :class:`~semel.errors.FlowError` for inputs that do not fit each other. Nothing is made then.
    """
    plan = _with_counts(cluster, plan)
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
    sized = sized_configs(max(_message_bytes_max(cluster, plan.source_topics).values(), default=0))
    for own in plan.own_topics:
        if there[own.name] is None:
            times = _ANY_TIME if own.name in _with_record(plan) else {}
            create_topic(cluster, own.name, own.partition_count, {**OWN_TOPIC_CONFIGS, **sized, **times})
    counts = {stage.output.topic: stage.partition_count or PARTITION_COUNT for stage in plan.stages}
    for topic in plan.output_topics:
        if topic_partition_count(cluster, topic) is None:
            create_topic(cluster, topic, counts[topic], sized)
    return _with_sizes(cluster, plan)


def found_topics(cluster: Cluster, plan: Plan) -> Plan:
    """The plan with partition counts and sizes as they are; makes nothing, and raises as :func:`made_topics` does."""
    return _with_sizes(cluster, _with_counts(cluster, plan))


def sized_configs(source_bytes_max: int) -> dict[str, str]:
    """Of the topics that a flow makes, whose largest source takes batches of ``source_bytes_max``."""
    wanted = min(
        2 * max(source_bytes_max, MESSAGE_BYTES_MAX) + _MORE_BYTES, max(source_bytes_max, SIZED_BYTES_MAX)
    )
    return {_SIZE: str(wanted)}


def _message_bytes_max(cluster: Cluster, topics: Collection[str]) -> dict[str, int]:
    there = [name for name in topics if topic_partition_count(cluster, name) is not None]
    configs = cluster.describe_configs(there) if there else {}
    found = {name: entry[_SIZE].value for name, entry in configs.items() if _SIZE in entry}
    return {name: int(value) for name, value in found.items() if value is not None}


def _with_sizes(cluster: Cluster, plan: Plan) -> Plan:
    outputs = dict.fromkeys(stage.output.topic for stage in plan.stages)
    return plan.with_record_sizes(_message_bytes_max(cluster, outputs))


def _with_counts(cluster: Cluster, plan: Plan) -> Plan:
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


def _with_record(plan: Plan) -> set[str]:
    return {stage.output.topic for stage in plan.stages if stage.output.has_record}


def _check_kept_whole(cluster: Cluster, plan: Plan, topics: list[str]) -> None:
    """What is lost from a topic between two stages, or from a changelog, is lost in silence."""
    configs = cluster.describe_configs(topics) if topics else {}
    for topic, found in configs.items():
        times = {_TIME_TYPE: "CreateTime"} if topic in _with_record(plan) else {}
        for name, wanted in {**OWN_TOPIC_CONFIGS, **times}.items():
            value = found[name].value if name in found else wanted
            if value != wanted:
                raise ConfigError(
                    f"topic {topic!r} of flow {plan.flow!r} has {name}={value}, and is to be kept whole. Nothing was "
                    f"written. If nothing of it is lost yet, set it back with `semel topic alter-config {topic} -c "
                    f"{name}={wanted}`; else give the flow another name, under which it begins anew"
                )
