"""How many partitions a flow's topics have: those that meet partition by partition have one number of them.

The inputs of a stage with a merge log meet so. A topic of the flow's own has the number that ``key_by`` asks for, else
that of the topics of others that it meets, which is known when the flow runs, else the flow's usual one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from semel.errors import FlowError
from semel.flow.plan import PARTITION_COUNT, Stage, Together
from semel.flow.tree import Node


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """``(count, None)``, or ``(0, topic)`` where it is the number of partitions that ``topic`` turns out to have."""

    by_topic: Mapping[str, tuple[int, str | None]]

    def of_topic(self, topic: str) -> tuple[int, str | None]:
        """Of a topic of the flow's own."""
        return self.by_topic.get(topic, (PARTITION_COUNT, None))

    def of_stage(self, stage: Stage) -> tuple[int, str | None]:
        """Of a stage's merge log; of a stage without one, as its output has where that is the flow's own."""
        return self.of_topic(stage.inputs[0].topic if stage.is_stateful else stage.output.topic)


def partition_groups(
    stages: Sequence[Stage], asked: Mapping[str, int], named_by: Mapping[str, Node]
) -> tuple[tuple[Together, ...], PartitionCounts]:
    """The groups of topics that meet, and what follows for each topic. ``asked`` are counts of own topics."""
    external = {read.topic for stage in stages for read in stage.inputs if not read.is_internal}
    groups: list[Together] = []
    by_topic: dict[str, tuple[int, str | None]] = {topic: (count, None) for topic, count in asked.items()}
    for topics, stage in _meeting(stages):
        node = named_by[stage.name]
        counts = {topic: asked[topic] for topic in topics if topic in asked}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
            raise FlowError(
                node.text,
                str(node.site),
                f"its inputs meet partition by partition, and other numbers of partitions are asked for ({told})",
                "Ask for one number in each key_by(..., partitions=n), or in one of them only",
            )
        count = next(iter(counts.values()), None)
        others = tuple(topic for topic in topics if topic in external)
        own = tuple(topic for topic in topics if topic not in external)
        groups.append(Together(others, own, count, node.text, str(node.site)))
        for topic in topics:
            if others and count is None:
                by_topic[topic] = (0, others[0])
            else:
                by_topic[topic] = (count or PARTITION_COUNT, None)
    return tuple(groups), PartitionCounts(by_topic)


def _meeting(stages: Sequence[Stage]) -> Iterator[tuple[list[str], Stage]]:
    """Topics that meet, through any number of stages, with the last stage that brings some of them together."""
    group_of: dict[str, list[str]] = {}
    last: dict[int, Stage] = {}
    for stage in stages:
        if not stage.is_stateful:
            continue
        joined: list[str] = []
        for read in stage.inputs:
            if read.topic in joined:
                continue
            group = group_of.get(read.topic, [read.topic])
            last.pop(id(group), None)
            joined += [topic for topic in group if topic not in joined]
        for topic in joined:
            group_of[topic] = joined
        last[id(joined)] = stage
    met: set[int] = set()
    for group in group_of.values():
        if id(group) not in met:
            met.add(id(group))
            yield group, last[id(group)]
