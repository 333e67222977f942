"""A flow that was changed: may it start, or would rows come twice, or never?

A stage goes on where its sink has decided to, in the topic that it read then. So a stage of the same name that reads
another topic now would begin at that one's beginning, and write, or count, a second time what it had. A step of Spark's
between ``key_by`` and a step with state is enough for that: it puts a topic in between. So would a stage of another
name, which the same steps have when they are written otherwise. And rows that stand in a topic of the flow's own are
only rows in between: a stage that was to read them and is not there any more leaves them for nobody. And rows of others
in such a topic would be counted as the flow's own: those of another flow's are no output, and a stage that was never
started has none. All of it is looked for before anybody is fenced and before a topic is made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from semel.client.blocking import Cluster
from semel.core.flow.merge import begun_behind
from semel.core.sink.history import SinkHistory
from semel.core.sink.own_topics import CHANGELOG_SUFFIX, MERGE_SUFFIX, OWN_TOPIC_CONFIGS
from semel.errors import ConfigError, ErrorCode
from semel.flow.merge_reading import read_records
from semel.flow.plan import Plan, Stage
from semel.spark.known_sinks import known_sinks
from semel.spark.options import Connection
from semel.spark.owners import refuse_foreign_output
from semel.spark.process import connect
from semel.spark.reading import read_range
from semel.spark.sink_log import SinkLog
from semel.spark.takeover import listed
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_ANOTHER_NAME = (
    "or give the changed flow another name, and its outputs other topics: it begins at the beginning then"
)


def check_changed(plan: Plan, connection: Connection) -> None:
    """:class:`~semel.errors.ConfigError` for a changed flow that has to be run as it was first, or named otherwise."""
    cluster = connect(connection)
    for topic in plan.output_topics:
        refuse_foreign_output(cluster, connection, topic, f"Flow {plan.flow!r} has written nothing")
    is_new = False
    for stage in plan.stages:
        history = SinkLog(connection, stage.sink_id).history()
        if history.fence is None:
            _refuse_rows_of_others(cluster, plan, stage)
        is_new = is_new or history.decision is None
        before, now = _inputs_read(history), {read.topic for read in stage.inputs}
        read, reads = _topics_read(history), topic_read(stage)
        if not read:
            continue
        if reads not in read:
            raise _read_otherwise(plan, stage, read, {reads})
        gone, new = before - now, now - before
        if stage.is_stateful and gone and new:  # one that comes in addition is another matter
            raise _read_otherwise(plan, stage, gone, new)
    if not is_new and not _own_topics_of_others(cluster, plan):
        return
    sinks = _sinks_of(plan, connection)
    _refuse_second_writers(plan, sinks)
    written = {topic for history in sinks.values() for topic in history.outputs}
    for_nobody = written - {read.topic for stage in plan.stages for read in stage.inputs}
    read_by_some: set[str] = set()
    for name in sorted(sinks.keys() - {stage.name for stage in plan.stages}):
        read_by_some |= _refuse_unread(cluster, plan, name, sinks[name], for_nobody)
    _refuse_never_read(cluster, plan, for_nobody - read_by_some)


def _refuse_rows_of_others(cluster: Cluster, plan: Plan, stage: Stage) -> None:
    """A stage that was never started, and topics of its own in which somebody has written."""
    own = {stage.output.topic} if stage.output.is_internal else set()
    if stage.is_stateful:
        own |= {stage.merge_topic, stage.changelog_topic}
    there = cluster.metadata(sorted(own)).topics if own else {}
    for name, topic in there.items():
        if topic.error_code is not ErrorCode.NONE:
            continue
        partitions = [TopicPartition(name, number) for number in sorted(topic.partitions)]
        starts, ends = (
            listed(cluster, partitions, which) for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        for tp in partitions:
            if starts[tp] < ends[tp] and _holds_rows(cluster, tp, starts[tp], ends[tp], str(topic.topic_id)):
                raise ConfigError(
                    f"topic {name!r} is one that flow {plan.flow!r} makes for itself, and it has rows, though stage "
                    f"{stage.name!r} was never started here: they are others', and it would count them. Nothing was "
                    f"written. Give the flow another name, or delete the topic if nobody needs it"
                )


def _sinks_of(plan: Plan, connection: Connection) -> dict[str, SinkHistory]:
    """All stages that a flow of this name ever had, and that have written."""
    sinks = {}
    for sink_id, history in known_sinks(connection.bootstrap).items():
        flow, _, name = sink_id.partition("/")
        if flow == plan.flow and name:
            sinks[name] = history
    return sinks


def _read_otherwise(plan: Plan, stage: Stage, read: Collection[str], reads: Collection[str]) -> ConfigError:
    return ConfigError(
        f"stage {stage.name!r} of flow {plan.flow!r} has read {', '.join(sorted(read))} so far, and would read "
        f"{', '.join(sorted(reads))} from its beginning now: what it has written would come a second time. Nothing was "
        f"written. Take the change back, {_ANOTHER_NAME}"
    )


def topic_read(stage: Stage) -> str:
    """The topic whose offsets a stage's are."""
    return stage.merge_topic if stage.is_stateful else stage.inputs[0].topic


def _topics_read(history: SinkHistory) -> set[str]:
    return set() if history.decision is None else {tp.topic for tp in history.decision.source_ends}


def _inputs_read(history: SinkHistory) -> set[str]:
    """Those of the plan by which the stage ran last."""
    if history.begin is None or not history.begin.plan:
        return set()
    parts, _ = json.JSONDecoder().raw_decode(history.begin.plan)
    return {read["topic"] for read in parts["inputs"]}


def _own_topics_of_others(cluster: Cluster, plan: Plan) -> set[str]:
    """Topics by the flow's name that its plan does not have: those of stages that it had."""
    own = {own.name for own in plan.own_topics} | set(plan.output_topics) | set(plan.source_topics)
    return {name for name in cluster.metadata(None).topics if name.startswith(f"{plan.flow}.")} - own


def _refuse_second_writers(plan: Plan, sinks: Mapping[str, SinkHistory]) -> None:
    """A stage that begins at the beginning, and writes where one wrote that the flow has no more."""
    names = {stage.name for stage in plan.stages}
    for stage in plan.stages:
        known = sinks.get(stage.name)
        if stage.output.is_internal or (known is not None and known.decision is not None):
            continue
        others = [name for name in sinks.keys() - names if stage.output.topic in sinks[name].outputs]
        if others:
            raise ConfigError(
                f"flow {plan.flow!r} was changed: topic {stage.output.topic!r} was written by its stage "
                f"{min(others)!r}, which it has no more, and would be written by stage {stage.name!r} from the "
                f"beginning now, a second time. Nothing was written. Take the change back, {_ANOTHER_NAME}"
            )


def _refuse_unread(
    cluster: Cluster, plan: Plan, name: str, history: SinkHistory, for_nobody: Collection[str]
) -> set[str]:
    """The stage is gone. What has it not read of the flow's own rows that no other stage reads either?

    Rows are looked for, and not offsets: a stage that goes on writes a fence to all that it ever wrote, at each start.
    The topics that it has read.
    """
    if history.decision is None:
        return set()
    there = cluster.metadata(None).topics
    read_to: dict[TopicPartition, int] = {}
    for tp, decided in history.decision.source_ends.items():
        if tp.topic not in there:
            continue
        if tp.topic.endswith(MERGE_SUFFIX):
            read_to |= _recorded(cluster, tp, decided, str(there[tp.topic].topic_id))
        else:
            read_to[tp] = decided
    between = {
        TopicPartition(topic, number)
        for topic in {tp.topic for tp in read_to} & there.keys() & set(for_nobody)
        if topic.startswith(f"{plan.flow}.")
        for number in there[topic].partitions
    }
    latest = listed(cluster, sorted(between), LATEST_TIMESTAMP)
    for tp in sorted(between):
        begun, end = read_to.get(tp, 0), latest[tp]
        if begun < end and _holds_rows(cluster, tp, begun, end, str(there[tp.topic].topic_id)):
            raise ConfigError(
                f"flow {plan.flow!r} was changed, and stage {name!r}, which it has no more, has not read the rows of "
                f"the flow's own topic {tp.topic!r} from offset {begun} of partition {tp.partition} on: nobody would. "
                f"Nothing was written. Run the flow as it was until it is at rest (--once), then change it; "
                f"{_ANOTHER_NAME}"
            )
    return {tp.topic for tp in read_to}


def _refuse_never_read(cluster: Cluster, plan: Plan, for_nobody: set[str]) -> None:
    """Rows for a stage that went before its first micro-batch: no sink tells of it, only the topic in front of it."""
    there = cluster.metadata(None).topics
    sides = {plan.bad_topic, plan.late_topic}
    between = sorted(
        topic
        for topic in for_nobody & there.keys() - sides
        if topic.startswith(f"{plan.flow}.") and not topic.endswith(CHANGELOG_SUFFIX)
    )
    configs = cluster.describe_configs(between) if between else {}
    for topic in between:
        found = {name: each.value for name, each in configs[topic].items()}
        if any(found.get(name) != value for name, value in OWN_TOPIC_CONFIGS.items()):
            continue  # a user's output that only begins with the flow's name
        partitions = [TopicPartition(topic, number) for number in sorted(there[topic].partitions)]
        starts, ends = (
            listed(cluster, partitions, which) for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        for tp in partitions:
            if _holds_rows(cluster, tp, starts[tp], ends[tp], str(there[topic].topic_id)):
                raise ConfigError(
                    f"flow {plan.flow!r} was changed, and the stage that was to read its own topic {topic!r}, which "
                    f"it has no more, has read nothing of it: nobody would read the rows from offset {starts[tp]} of "
                    f"partition {tp.partition} on. Nothing was written. Run the flow as it was until it is at rest "
                    f"(--once), then change it; {_ANOTHER_NAME}"
                )


def _recorded(
    cluster: Cluster, merge_log: TopicPartition, decided: int, topic_id: str
) -> dict[TopicPartition, int]:
    """How far the inputs were read by the entries in front of the decided end."""
    if not decided:
        return {}
    ranges = {merge_log.partition: (decided - 1, decided)}
    rest = iter(read_records(cluster, merge_log.topic, topic_id, ranges)[merge_log.partition])
    history = begun_behind(decided, rest)
    if history is None:  # whoever runs the stage is told
        return {}
    return {TopicPartition(key.topic, merge_log.partition): end for key, end in history.ends.items()}


def _holds_rows(cluster: Cluster, tp: TopicPartition, begun: int, end: int, topic_id: str) -> bool:
    fetches = read_range(cluster, tp, begun, end, topic_id=topic_id)
    return any(not header.is_control for batches in fetches for _, header in batches)
