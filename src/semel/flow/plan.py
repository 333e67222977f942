"""What the planner makes of a flow, and the shells run: stages which meet in topics only.

A *stage* is one streaming query: it reads topics, or the merge log over them, and writes one output, with its side
outputs and its changelog, through the sequenced sink ``<flow>/<stage>``. All of this is a value; nothing here reads
or writes.

Names are identities. A stage's name makes its sink id and its topics' names, so it is made of the stage's own steps
and sources alone, and never of what else is in the flow.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from semel.core.flow.schema import Field, Schema
from semel.core.flow.steps import OnInputs
from semel.core.flow.windows import Window
from semel.core.sink.own_topics import CHANGELOG_SUFFIX, MERGE_SUFFIX
from semel.errors import FlowError
from semel.flow.frame_session import FRAME_SETTINGS
from semel.record.columnar import BATCH_BYTES_MAX

PLAN_FORMAT: Final = 2  # raised where a new semel would write other bytes for the same plan and the same rows
PARTITION_COUNT: Final = 4  # of a flow's own topics, where nothing says another


_BATCH_ROOM_BYTES: Final = 48_588  # of max.message.bytes, for a batch around a record


class StageKind(Enum):
    """Where a stage's rows are worked on."""

    FRAME = "spark"  # a DataFrame between source and sink; stateless, with a step of Spark's
    TASK = "python"  # wholly inside the sink's task, with or without Spark around it


class Tombstones(Enum):
    """What a record without a value is to a stage. One of a table's own input deletes its key's row."""

    BAD = "bad"  # as any value that cannot be read
    PASSED = "passed"  # it deletes a row of a table further down, and goes there under its key
    UNKEYED = "unkeyed"  # it would, and nothing says whose: bad, in words that say so


@dataclass(frozen=True, slots=True)
class Input:
    """A topic that a stage reads.

    ``is_promised``: others have promised that a record's key is that of the columns ``key``, and that it lies in the
    key's partition. The shell proves both for each row, and stops the flow at the first for which they do not hold.
    Where ``is_keyed`` is not set beside it, the stage goes by the key of tombstones alone, and the first is proven.
    """

    topic: str
    schema: Schema | None  # None: values are bytes
    is_internal: bool = False  # made and written by this flow
    is_keyed: bool = False  # all rows of a key are in one partition, by the partitioner of the flow
    key: tuple[Field, ...] = ()  # what the record's key is made of
    is_promised: bool = False
    is_table: bool = False
    has_headers: bool = False  # a step looks at the records' headers
    tombstones: Tombstones = Tombstones.BAD
    has_tombstones: bool = False  # of a topic of the flow's own: its values are not all of rows
    has_record: bool = False  # rows carry the time and the headers of their record

    @property
    def deletes(self) -> bool:
        """Whether a record without a value is a tombstone here, which no step sees but a join's."""
        return self.is_table or self.tombstones is Tombstones.PASSED

    @property
    def reads_headers(self) -> bool:
        return self.has_headers or self.has_record


@dataclass(frozen=True, slots=True)
class Output:
    """The topic that a stage writes."""

    topic: str
    schema: Schema | None  # None: bytes, or rows of no declared type
    is_internal: bool = False
    key: tuple[Field, ...] | None = None  # columns to make the key of; (): the key as it came; None: no key
    has_record: bool = (
        False  # rows are written with the time and the headers of the record that they stem from
    )


@dataclass(frozen=True, slots=True)
class Above:
    """A stage whose rows come to another one, directly or through others, as far as that has to look at it."""

    sink_id: str
    topics: tuple[str, ...]  # that it reads
    merge_topic: str | None  # None: it reads plain ranges


@dataclass(frozen=True, slots=True)
class Stage:
    """One streaming query."""

    flow: str
    name: str
    kind: StageKind
    inputs: tuple[Input, ...]  # streams first, then tables
    steps: tuple[Any, ...]  # StepSpecs of semel.core.flow; those of semel.flow.frame_steps in a FRAME stage
    output: Output
    is_stateful: bool  # reads through a merge log; all inputs have partition_count partitions
    partition_count: int  # of merge log and changelog; 0: that of `partitions_like`, once the flow runs
    partitions_like: str | None  # a topic of others whose partition count is the stage's
    pattern: str = field(compare=False)
    reason: str = field(compare=False)
    site: str = field(compare=False)  # where its last step was written
    record_bytes_max: int = BATCH_BYTES_MAX  # what its output takes, once that is known
    above: tuple[Above, ...] = field(default=(), compare=False)  # where windows go on without rows

    @property
    def sink_id(self) -> str:
        return f"{self.flow}/{self.name}"

    @property
    def topic(self) -> str:
        """The topic between this stage and others, where its output is not one of the user's."""
        return internal_topic(self.flow, self.name)

    @property
    def merge_topic(self) -> str:
        return self.topic + MERGE_SUFFIX

    @property
    def changelog_topic(self) -> str:
        return self.topic + CHANGELOG_SUFFIX

    @property
    def has_state(self) -> bool:
        """Whether a step of it has state; a stateful stage without only records an order."""
        return any(step.is_stateful for step in self.steps)

    @property
    def idle_ms(self) -> int:
        """After so much time without a row its windows go on; 0: they do not."""
        return max((step.idle_ms for step in self._windows), default=0)

    @property
    def rests_ms(self) -> tuple[int, ...]:
        """For each of its windows, the time without a row behind which nothing is open."""
        return tuple(step.rest_ms for step in self._windows)

    @property
    def _windows(self) -> list[Window]:
        return [step for step in self.steps if isinstance(step, Window)]

    @property
    def plan_text(self) -> str:
        """Everything a replay has to find the same, as canonical JSON: inputs, steps with their code, output."""
        settings = {"settings": dict(FRAME_SETTINGS)} if self.kind is StageKind.FRAME else {}
        is_other = self.record_bytes_max != BATCH_BYTES_MAX  # what is larger is a bad row
        sizes = {"record_bytes_max": self.record_bytes_max} if is_other else {}
        return _canonical(
            settings
            | sizes
            | {
                "format": PLAN_FORMAT,
                "inputs": [_input_parts(read) for read in self.inputs],
                "steps": [dict(step.plan_parts()) for step in self.steps],
                "output": _output_parts(self.output),
            }
        )

    @property
    def state_text(self) -> str:
        """What the state means, as canonical JSON; "" without state.

        The n-th of its ``steps`` is the n-th step with state of the stage: what has none may come and go in between,
        and code may change. State is found again by this number, and never by the place among all steps.
        """
        if not self.has_state:
            return ""
        steps = [_bare(step).state_parts() for step in self.steps if step.is_stateful]
        return _canonical({"key": _fields(self.inputs[0].key), "steps": steps})


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A topic that the flow makes for itself, with :data:`OWN_TOPIC_CONFIGS`."""

    name: str
    partition_count: int  # 0: that of `like`
    like: str | None
    purpose: str


@dataclass(frozen=True, slots=True)
class Together:
    """Topics that meet partition by partition: all have one number of partitions."""

    external: tuple[str, ...]  # made by others
    internal: tuple[str, ...]
    partition_count: int | None  # asked for with key_by(..., partitions=n)
    step: str = field(compare=False)  # the step that brings them together, for the error
    site: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A flow's stages, what writes a topic before what reads it."""

    flow: str
    stages: tuple[Stage, ...]
    own_topics: tuple[OwnTopic, ...]
    together: tuple[Together, ...] = ()

    @property
    def bad_topic(self) -> str:
        """Where rows go that could not be read, with the reason in their headers."""
        return f"{self.flow}.bad"

    @property
    def late_topic(self) -> str:
        """Where rows go that came after their window was closed."""
        return f"{self.flow}.late"

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics of others that are read."""
        return tuple(
            dict.fromkeys(
                read.topic for stage in self.stages for read in stage.inputs if not read.is_internal
            )
        )

    @property
    def output_topics(self) -> tuple[str, ...]:
        """The user's topics that are written."""
        return tuple(stage.output.topic for stage in self.stages if not stage.output.is_internal)

    @property
    def needs_spark(self) -> bool:
        return any(stage.kind is StageKind.FRAME for stage in self.stages)

    def stage(self, name: str) -> Stage:
        """The one of this name; ``KeyError`` if there is none."""
        return next((stage for stage in self.stages if stage.name == name), None) or _no_stage(name)

    def with_partition_counts(self, found: Mapping[str, int]) -> Plan:
        """With the partition counts of the source topics, as a server has them, where the plan left them open.

        :class:`~semel.errors.FlowError` where topics that meet partition by partition have different numbers of them.
        """
        for group in self.together:
            counts = {topic: found[topic] for topic in group.external}
            if group.partition_count is not None:
                counts[f"key_by(..., partitions={group.partition_count})"] = group.partition_count
            if len(set(counts.values())) > 1:
                told = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
                raise FlowError(
                    group.step,
                    group.site,
                    f"its inputs meet partition by partition and have different numbers of partitions ({told})",
                    "Send one of them through a topic of the flow's: .key_by(..., partitions=n) with the number of the "
                    "other, or leave key= out where its source is declared",
                )
        return dataclasses.replace(
            self,
            stages=tuple(
                stage
                if stage.partitions_like is None
                else dataclasses.replace(
                    stage, partition_count=found[stage.partitions_like], partitions_like=None
                )
                for stage in self.stages
            ),
            own_topics=tuple(
                topic
                if topic.like is None
                else dataclasses.replace(topic, partition_count=found[topic.like], like=None)
                for topic in self.own_topics
            ),
        )

    def with_record_sizes(self, found: Mapping[str, int]) -> Plan:
        """With the largest record that each output takes, as a server has it: ``max.message.bytes`` by topic."""
        stages = tuple(
            dataclasses.replace(stage, record_bytes_max=record_bytes_max(found[stage.output.topic]))
            if stage.output.topic in found
            else stage
            for stage in self.stages
        )
        return dataclasses.replace(self, stages=stages)


def record_bytes_max(message_bytes_max: int) -> int:
    """Of key, value and headers: 1,000,000 bytes where Kafka's default is left as it is."""
    return message_bytes_max - min(_BATCH_ROOM_BYTES, message_bytes_max // 4)


def internal_topic(flow: str, stage: str) -> str:
    """The topic between a stage and those that read it."""
    return f"{flow}.{stage}"


def above(stage: Stage, stages: Sequence[Stage]) -> tuple[Above, ...]:
    """Those of ``stages`` whose rows come to ``stage``, in their order; of one that asks for no idle time, none."""
    if not stage.idle_ms:
        return ()
    made_by = {other.output.topic: other for other in stages}
    found: set[str] = set()
    waiting = [stage]
    while waiting:
        for read in waiting.pop().inputs:
            other = made_by.get(read.topic)
            if other is not None and other.name not in found:
                found.add(other.name)
                waiting.append(other)
    return tuple(
        Above(
            other.sink_id,
            tuple(read.topic for read in other.inputs),
            other.merge_topic if other.is_stateful else None,
        )
        for other in stages
        if other.name in found
    )


def _bare(step: Any) -> Any:
    """Which inputs a step sees is no part of what its state means."""
    return step.step if isinstance(step, OnInputs) else step


def _no_stage(name: str) -> Stage:
    raise KeyError(name)


def _input_parts(read: Input) -> dict[str, Any]:
    parts = {
        "topic": read.topic,
        "columns": _columns(read.schema),
        "key": _fields(read.key) if read.is_keyed else None,
        "is_table": read.is_table,
    }
    if read.tombstones is not Tombstones.BAD:
        parts["tombstones"] = read.tombstones.value
    return parts | _record_part(read)


def _output_parts(output: Output) -> dict[str, Any]:
    parts = {
        "topic": output.topic,
        "columns": _columns(output.schema),
        "key": None if output.key is None else _fields(output.key),
    }
    return parts | _record_part(output)


def _record_part(of: Input | Output) -> dict[str, Any]:
    """Only where it is so: the plan of a flow that was begun without is what it was."""
    return {"record": True} if of.has_record else {}


def _columns(schema: Schema | None) -> list[list[str]] | None:
    return None if schema is None else _fields(schema.fields)


def _fields(fields: tuple[Field, ...]) -> list[list[str]]:
    return [[each.name, each.kind.value] for each in fields]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
