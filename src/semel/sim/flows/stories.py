"""The sinks and the flows of one history, and what a server is to have for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.sim.flows.story import FlowStory, flow_partitions, flow_topics
from semel.sim.sinks.drawing import sink_partitions, sink_topics
from semel.sim.sinks.log_compaction import SinkLogCompaction
from semel.sim.sinks.story import SinkStory
from semel.types import SINKS_TOPIC, TopicPartition


@dataclass(frozen=True, slots=True)
class Stories:
    """A seed that has flows has no other sinks: both are dear."""

    sinks: Sequence[SinkStory] = ()
    flows: Sequence[FlowStory] = ()
    sink_log: SinkLogCompaction | None = None  # None: it is kept whole

    @property
    def topics(self) -> list[tuple[str, int, Mapping[str, str]]]:
        """To be made: name, partitions, settings."""
        of_log = {"cleanup.policy": "delete"} if self.sink_log is None else self.sink_log.topic_config
        return [
            (topic, count, {**config, **of_log} if topic == SINKS_TOPIC else config)
            for topic, count, config in [*sink_topics(self.sinks), *flow_topics(self.flows)]
        ]

    @property
    def partitions(self) -> list[TopicPartition]:
        """The sinks' outputs, the topics of flows, and the decision log."""
        return [*sink_partitions(self.sinks), *flow_partitions(self.flows)]
