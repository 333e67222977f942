"""The topics that a flow makes for itself, and whose names nothing else may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from semel.core.log.names import topic_name_error
from semel.errors import FlowError
from semel.flow.partitions import PartitionCounts
from semel.flow.plan import OwnTopic, Stage
from semel.flow.tree import Node, OutputNode, SourceNode

SIDE_PARTITION_COUNT: Final = 2  # of what is bad, by where a stage of Spark's finds it, each in its order

_RENAME: Final = 'Put .named("...") in front of it: what is behind is named after that'


def own_topics(
    flow: str, stages: Sequence[Stage], counts: PartitionCounts, named_by: Mapping[str, Node]
) -> tuple[OwnTopic, ...]:
    """All of them; refused where two have one name, or a topic of others has it. ``named_by``: the steps."""
    own: dict[str, OwnTopic] = {topic.name: topic for topic in _side_topics(flow)}
    made_by: dict[str, Node] = {}
    for stage in stages:
        node = named_by[stage.name]
        for topic in _topics_of(stage, counts):
            why = topic_name_error(topic.name)
            if why is not None:
                raise FlowError(
                    node.text, str(node.site), f"its stage is called {stage.name}: {why}", _RENAME
                )
            if topic.name in made_by:
                raise clash(topic.name, made_by[topic.name], node)
            own[topic.name], made_by[topic.name] = topic, node
    for stage in stages:
        node = named_by[stage.name]
        of_others = [read.topic for read in stage.inputs if not read.is_internal]
        of_others += [] if stage.output.is_internal else [stage.output.topic]
        for name in of_others:
            if name in own:
                raise FlowError(
                    node.text,
                    str(node.site),
                    f"topic {name} is one that the flow {flow} makes for itself ({own[name].purpose})",
                    'Take another topic, or give the flow another name: .named("...") behind .to(...)',
                )
    sides = [topic.name for topic in _side_topics(flow)]
    return (*(own[name] for name in made_by), *(own[name] for name in sides))


def refuse_topics(nodes: Sequence[Node], outputs: Sequence[OutputNode]) -> None:
    """Two outputs to one topic, and a topic that is read and written."""
    written: dict[str, OutputNode] = {}
    for output in outputs:
        other = written.setdefault(output.topic, output)
        if other is not output:
            raise FlowError(
                output.text,
                str(output.site),
                f"topic {output.topic} is written by {other.text} at {other.site} already",
                "Merge the streams in front of one output, or write to two topics",
            )
    for node in nodes:
        if isinstance(node, SourceNode) and node.topic in written:
            output = written[node.topic]
            raise FlowError(
                output.text,
                str(output.site),
                f"topic {node.topic} is read by the same flow, at {node.site}: its rows would go round for ever",
                "Write to another topic",
            )


def clash(name: str, first: Node, second: Node) -> FlowError:
    """Two stages, or two topics, of one name."""
    return FlowError(
        second.text,
        str(second.site),
        f"it would be called {name}, as is {first.text} at {first.site}, which is another one",
        _RENAME,
    )


def _topics_of(stage: Stage, counts: PartitionCounts) -> Iterator[OwnTopic]:
    if stage.output.is_internal:
        count, like = counts.of_topic(stage.output.topic)
        yield OwnTopic(stage.output.topic, count, like, f"rows of {stage.name}")
    if stage.is_stateful:
        count, like = stage.partition_count, stage.partitions_like
        yield OwnTopic(stage.merge_topic, count, like, f"merge log of {stage.name}")
        if stage.has_state:
            yield OwnTopic(stage.changelog_topic, count, like, f"changelog of {stage.name}")


def _side_topics(flow: str) -> tuple[OwnTopic, OwnTopic]:
    return (
        OwnTopic(f"{flow}.bad", SIDE_PARTITION_COUNT, None, "rows that no step could take, with the reason"),
        OwnTopic(f"{flow}.late", SIDE_PARTITION_COUNT, None, "rows that came after their window was closed"),
    )
