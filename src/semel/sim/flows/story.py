"""One flow: its stages, its topics, and all that was done to it. What the checkers know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from semel.core.sink.journal import SINKS_TOPIC
from semel.core.sink.own_topics import OWN_TOPIC_CONFIGS
from semel.flow.merge_log import MERGE_LOG_CONFIG
from semel.flow.plan import Plan, Stage
from semel.flow.stage_ranges import StageTask
from semel.flow.stage_state import StateBounds
from semel.sim.flows.machines import Machines
from semel.sim.flows.steps import Doing, plan_of
from semel.spark.sink_log import DECISION_LOG_CONFIG
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.driver import StageDriver

DECISIONS_MIN: Final = 2  # of each stage: the second begins with the state of the first
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state that an attempt of a task began with."""

    partition: int
    decided_end: int
    rows: Mapping[bytes, bytes]
    by: str


@dataclass(slots=True)
class StageStory:
    """One stage of a flow."""

    flow: FlowStory
    name: str
    drivers: list[StageDriver] = field(default_factory=list)
    is_mended: bool = False  # its steps fail at no row any more
    was_mended: bool = False
    decisions: int = 0
    is_finished: bool = False  # all rows of its inputs are decided, and none comes any more
    has_stopped: bool = False  # for good
    loaded: list[Loaded] = field(default_factory=list)  # since the logs were judged last
    planned: list[StageTask] = field(default_factory=list)  # likewise

    @property
    def sink_id(self) -> str:
        return self.stage.sink_id

    @property
    def stage(self) -> Stage:
        """As it is written now."""
        return self.flow.plans[self.is_mended].stage(self.name)

    def mend(self, *, back: bool = False) -> None:
        """Write its steps anew; ``back``: as they were."""
        self.is_mended, self.was_mended = not back, True

    @property
    def sources(self) -> list[TopicPartition]:
        """What its sink's offsets are of: the partitions of its input, or of its merge log."""
        stage, flow = self.stage, self.flow
        topic = stage.merge_topic if stage.is_stateful else stage.inputs[0].topic
        return [TopicPartition(topic, number) for number in range(flow.partition_counts[topic])]

    @property
    def is_fed(self) -> bool:
        """Whether no row comes to its inputs any more."""
        inputs = {read.topic for read in self.stage.inputs}
        before = [other for other in self.flow.stages if other.stage.output.topic in inputs]
        return all(other.is_finished for other in before) if before else self.flow.is_closed


@dataclass(slots=True)
class FlowStory:
    """A flow ``name``, whose sources have so many partitions each."""

    name: str
    doing: Doing
    source_partitions: int
    breaks: bool  # its steps fail at some rows, until they are mended
    users: int
    row_gap_ms: int
    bounds: StateBounds
    rows_max: Sequence[int]  # the cuts, of which each driver takes one of each kind
    entries_max: Sequence[int]
    entry_rows_max: Sequence[int]
    elapsed_ms: Callable[[], int]
    is_closed: bool = False  # no row comes any more
    machines: Machines = field(default_factory=Machines)
    stages: list[StageStory] = field(init=False)
    partition_counts: dict[str, int] = field(init=False)
    plans: dict[bool, Plan] = field(init=False)  # mended, and as they were

    def __post_init__(self) -> None:
        found = dict.fromkeys(self.doing.sources, self.source_partitions)
        self.plans = {
            is_mended: plan_of(
                self.name, self.doing, output=self.output, is_mended=is_mended
            ).with_partition_counts(found)
            for is_mended in (False, True)
        }
        self.stages = [StageStory(self, stage.name, is_mended=not self.breaks) for stage in self.plan.stages]
        self.partition_counts = found | {own.name: own.partition_count for own in self.plan.own_topics}
        self.partition_counts[self.output] = self.doing.partition_count

    @property
    def output(self) -> str:
        return f"{self.name}.out"

    @property
    def plan(self) -> Plan:
        """As it is written in the end."""
        return self.plans[True]

    @property
    def is_finished(self) -> bool:
        return all(stage.is_finished for stage in self.stages)

    @property
    def is_on_its_way(self) -> bool:
        """Whether each stage has come so far that a fault meets what it has decided."""
        return all(
            stage.decisions >= DECISIONS_MIN or stage.is_finished or stage.has_stopped
            for stage in self.stages
        )


def flow_topics(flows: Sequence[FlowStory]) -> list[tuple[str, int, Mapping[str, str]]]:
    """The topics to be made: name, partitions, settings."""
    if not flows:
        return []
    made: list[tuple[str, int, Mapping[str, str]]] = [(SINKS_TOPIC, 1, DECISION_LOG_CONFIG)]
    for flow in flows:
        merge_logs = {stage.merge_topic for stage in flow.plan.stages}
        own = {each.name for each in flow.plan.own_topics} - merge_logs
        for topic, count in flow.partition_counts.items():
            kept = (
                MERGE_LOG_CONFIG if topic in merge_logs else OWN_TOPIC_CONFIGS if topic in own else FOR_EVER
            )
            made.append((topic, count, kept))
    return made


def flow_partitions(flows: Sequence[FlowStory]) -> list[TopicPartition]:
    """All partitions of these."""
    return [TopicPartition(topic, n) for topic, count, _ in flow_topics(flows) for n in range(count)]
