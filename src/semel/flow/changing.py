"""A flow that was changed: may it start, or would rows come twice, or never?

A stage goes on where its sink has decided to, in the topic that it read then. So a stage of the same name that reads
another topic now would begin at that one's beginning, and write a second time what it wrote. And rows that stand in a
topic of the flow's own are only rows in between: a stage that was to read them and is not there any more leaves them
for nobody. Both are looked for before anybody is fenced and before a topic is made.
"""

from __future__ import annotations

from semel.client.blocking import Cluster
from semel.core.flow.merge import Entry, MergeHistory, begun_behind
from semel.core.sink.history import SinkHistory
from semel.errors import ConfigError
from semel.flow.merge_reading import read_records
from semel.flow.plan import MERGE_SUFFIX, Plan, Stage
from semel.spark.known_sinks import known_sinks
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.sink_log import SinkLog
from semel.spark.takeover import listed
from semel.types import LATEST_TIMESTAMP, TopicPartition
from semel.wording import counted

_ANOTHER_NAME = (
    "or give the changed flow another name, and its outputs other topics: it begins at the beginning then"
)


def check_changed(plan: Plan, connection: Connection) -> None:
    """:class:`~semel.errors.ConfigError` for a changed flow that has to be run as it was first, or named otherwise."""
    for stage in plan.stages:
        history = SinkLog(connection, stage.sink_id).history()
        read, reads = _topics_read(history), topic_read(stage)
        if read and reads not in read:
            raise ConfigError(
                f"stage {stage.name!r} of flow {plan.flow!r} has read {', '.join(sorted(read))} so far, and would read "
                f"{reads} from its beginning now: what it has written would come a second time. Nothing was written. "
                f"Take the change back, {_ANOTHER_NAME}"
            )
    cluster = connect(connection)
    if not _own_topics_of_others(cluster, plan):
        return
    for sink_id, history in known_sinks(connection.bootstrap).items():
        flow, _, name = sink_id.partition("/")
        if flow == plan.flow and name not in {stage.name for stage in plan.stages}:
            _refuse_unread(cluster, plan, name, history)


def topic_read(stage: Stage) -> str:
    """The topic whose offsets a stage's are."""
    return stage.merge_topic if stage.is_stateful else stage.inputs[0].topic


def _topics_read(history: SinkHistory) -> set[str]:
    return set() if history.decision is None else {tp.topic for tp in history.decision.source_ends}


def _own_topics_of_others(cluster: Cluster, plan: Plan) -> set[str]:
    """Topics by the flow's name that its plan does not have: those of stages that it had."""
    own = {own.name for own in plan.own_topics} | set(plan.output_topics) | set(plan.source_topics)
    return {name for name in cluster.metadata(None).topics if name.startswith(f"{plan.flow}.")} - own


def _refuse_unread(cluster: Cluster, plan: Plan, name: str, history: SinkHistory) -> None:
    """The stage is gone. What of the flow's own rows has it not read?"""
    if history.decision is None:
        return
    there = cluster.metadata(None).topics
    ends = {tp: end for tp, end in history.decision.source_ends.items() if tp.topic in there}
    recorded: dict[TopicPartition, int] = {}
    unread = 0
    for tp, decided in ends.items():
        if tp.topic.endswith(MERGE_SUFFIX):
            merged, waiting = _recorded(cluster, tp, decided, str(there[tp.topic].topic_id))
            unread += waiting
            recorded |= {TopicPartition(key.topic, tp.partition): end for key, end in merged.ends.items()}
        else:
            recorded[tp] = decided
    between = {
        tp: end
        for tp, end in recorded.items()
        if tp.topic in there and tp.topic.startswith(f"{plan.flow}.") and tp.topic not in plan.source_topics
    }
    latest = listed(cluster, sorted(between), LATEST_TIMESTAMP)
    unread += sum(max(0, latest[tp] - end) for tp, end in between.items())
    if unread:
        raise ConfigError(
            f"flow {plan.flow!r} was changed, and stage {name!r}, which it has no more, has not read "
            f"{counted(unread, 'offset')} of the flow's own topics: nobody would. Nothing was written. Run the flow as "
            f"it was until it is at rest (--once), then change it; {_ANOTHER_NAME}"
        )


def _recorded(
    cluster: Cluster, merge_log: TopicPartition, decided: int, topic_id: str
) -> tuple[MergeHistory, int]:
    """The merge log's history, from the entry at the decided end on; and how many entries stand behind that."""
    end = listed(cluster, [merge_log], LATEST_TIMESTAMP)[merge_log]
    ranges = {merge_log.partition: (max(0, decided - 1), end)}
    rest = iter(read_records(cluster, merge_log.topic, topic_id, ranges)[merge_log.partition])
    history = begun_behind(decided, rest) if decided else MergeHistory()
    if history is None:  # whoever runs the stage is told
        return MergeHistory(), 0
    waiting = [
        record for offset, record in rest if history.apply(offset, record) and isinstance(record, Entry)
    ]
    return history, len(waiting)
