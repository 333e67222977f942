"""Cuts a flow into stages, and picks for each edge the cheapest pattern that is safe there.

What makes an edge a topic (everything else runs on within its stage)
    ``key_by``: rows of a key have to come together. Left out where the rows are keyed so already.
    A step of Spark's behind a step with state, or between ``key_by`` and one: what has state runs in the sink's task,
    from the recorded order to the sink, and rows never go through Spark there.
    A step with state whose rows several others take: it is done once.
What is not one
    Stateless steps in front of ``key_by`` or an output. Steps of Python behind or between steps with state of one key.
    ``merge`` in front of stateless steps or ``key_by``: these are done for each of its streams, and the streams meet
    in the merge log of the stage that needs their order.
    ``key_by`` right in front of an output: the user's topic is keyed itself.

Names
    A label goes along with the rows: the source's topic, then ``-by-<columns>`` for a key, ``-<step>`` for a step with
    state, ``-with-<table>`` for a join, ``a-and-b`` for a merge, ``-<n>`` for a branch, or what ``named`` says. A stage
    with state is named by the label behind its first such step; one that writes a user's topic and has no state by
    that topic; others by what they write. So a name depends on what is in front of it, and on nothing else: a flow may
    grow and shrink beside it. Names that would be equal are an error, for a number behind one of them would change
    when the other goes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from semel.core.flow.schema import Field, Schema
from semel.core.flow.steps import Map, OnInputs
from semel.core.log.names import topic_name_error
from semel.errors import FlowError
from semel.flow import reasons
from semel.flow.frame_steps import Select, is_frame_step
from semel.flow.partitions import partition_groups
from semel.flow.plan import PARTITION_COUNT, Input, Output, OwnTopic, Plan, Stage, StageKind, internal_topic
from semel.flow.tree import (
    JoinNode,
    KeyByNode,
    MergeNode,
    NamedNode,
    Node,
    OutputNode,
    RowShape,
    SourceNode,
    StatefulNode,
    StatelessNode,
    TableNode,
    in_order,
    same_as,
)

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_SUFFIX: Final = ".changelog"


def plan_flow(flow: str, outputs: Sequence[OutputNode]) -> Plan:
    """The stages of a flow; :class:`~semel.errors.FlowError` where its steps do not go together."""
    nodes = in_order(outputs)
    _refuse_topics(nodes, outputs)
    planner = _Planner(flow, nodes)
    for node in nodes:
        planner.take(node)
    return planner.plan()


@dataclass(frozen=True, slots=True)
class _Branch:
    """Rows of one topic, and stateless steps that no stage runs yet."""

    read: Input
    label: str
    shape: RowShape  # behind the steps
    node: Node  # the last step
    steps: tuple[Any, ...] = ()
    because: str = ""  # why its topic is there, where that could be avoided

    @property
    def is_framed(self) -> bool:
        return any(is_frame_step(step) for step in self.steps)


@dataclass(frozen=True, slots=True)
class _Open:
    """What a node's rows are made of so far, where the stage that makes them has no end yet."""

    label: str
    shape: RowShape
    node: Node
    branches: tuple[_Branch, ...]
    tables: tuple[_Branch, ...] = ()
    steps: tuple[Any, ...] = ()  # behind the merge log; only of a stateful stage
    name: str = ""  # of the stateful stage; "": stateless
    last: Node | None = None  # the last step with state
    rekey: KeyByNode | None = None  # the key that the end of the stage gives

    @property
    def is_stateful(self) -> bool:
        return bool(self.name)


class _Planner:
    def __init__(self, flow: str, nodes: Sequence[Node]) -> None:
        self._flow = flow
        self._same = same_as(nodes)
        self._takers = Counter(
            id(parent)
            for node in nodes
            if self._same[id(node)] is node
            for parent in {
                id(self._same[id(parent)]): self._same[id(parent)] for parent in node.parents
            }.values()
        )
        self._open: dict[int, _Open] = {}
        self._stages: dict[str, Stage] = {}
        self._ends: dict[str, Node] = {}  # the last step of each stage
        self._partition_counts: dict[str, int] = {}  # asked for, of own topics

    # --- nodes --------------------------------------------------------------------------------------------

    def take(self, node: Node) -> None:
        """Plan what this node adds; its parents have been taken."""
        if self._same[id(node)] is not node:
            return
        opened = self._opened(node)
        if opened is None:
            return
        if opened.is_stateful and opened.rekey is None and self._takers[id(node)] > 1:
            opened = self._closed(opened, reasons.SHARED)
        self._open[id(node)] = opened

    def _of(self, node: Node) -> _Open:
        return self._open[id(self._same[id(node)])]

    def _opened(self, node: Node) -> _Open | None:
        match node:
            case SourceNode():
                return self._source(node)
            case StatelessNode():
                return self._stateless(node, self._of(node.parent))
            case KeyByNode():
                return self._key_by(node, self._of(node.parent))
            case StatefulNode():
                opened = self._settled(self._of(node.parent), node)
                return self._with_step(opened, node, node.spec, f"{opened.label}-{_label(node.label)}")
            case MergeNode():
                return self._merge(node)
            case TableNode():
                return replace(self._of(node.parent), node=node)
            case JoinNode():
                return self._join(node)
            case NamedNode():
                return self._named(node, self._of(node.parent))
            case OutputNode():
                self._end(node, self._of(node.parent))
                return None
            case _:
                raise AssertionError(type(node))

    def _source(self, node: SourceNode) -> _Open:
        shape, label = node.shape, _label(node.topic)
        read = Input(
            node.topic,
            shape.schema,
            is_keyed=shape.key is not None,
            key=shape.key or (),
            is_promised=shape.key is not None,
        )
        if node.is_copied:
            raw = replace(read, schema=None, is_keyed=False, key=(), is_promised=False)
            output = Output(internal_topic(self._flow, f"{label}-copy"), None, is_internal=True, key=())
            self._add(f"{label}-copy", StageKind.TASK, (raw,), (), output, node, reasons.COPY)
            read = replace(read, topic=output.topic, is_internal=True)
        return _Open(label, shape, node, (_Branch(read, label, shape, node),))

    def _stateless(self, node: StatelessNode, opened: _Open) -> _Open:
        is_framed = any(is_frame_step(step) for step in node.specs)
        suffix = "" if node.part is None else f"-{node.part}"
        if opened.rekey is not None or (opened.is_stateful and is_framed):
            behind = opened.last if opened.rekey is None else opened.rekey
            because = reasons.cut_behind(node, behind) if is_framed and behind is not None else ""
            opened = self._closed(opened, because)
        opened = replace(opened, label=opened.label + suffix, shape=node.shape, node=node)
        if opened.is_stateful:
            return replace(opened, steps=opened.steps + node.specs)
        return replace(
            opened,
            branches=tuple(
                replace(
                    branch,
                    label=branch.label + suffix,
                    shape=_behind(branch.shape, node.shape),
                    node=node,
                    steps=branch.steps + node.specs,
                )
                for branch in opened.branches
            ),
        )

    def _key_by(self, node: KeyByNode, opened: _Open) -> _Open:
        shape = opened.shape
        if node.partition_count is None and shape.key == node.shape.key and shape.is_key_in_columns:
            return replace(opened, node=node)
        if opened.rekey is not None:  # another key, or another number of partitions
            opened = self._closed(opened, "")
        return replace(opened, rekey=node, shape=node.shape, node=node)

    def _with_step(self, opened: _Open, node: Node, spec: Any, label: str) -> _Open:
        return replace(
            opened,
            label=label,
            shape=node.shape,
            node=node,
            steps=(*opened.steps, spec),
            name=opened.name or label,
            last=node,
        )

    def _merge(self, node: MergeNode) -> _Open:
        parts: list[_Open] = []
        for parent in node.merged:
            part = self._of(parent)
            if part.rekey is not None or part.is_stateful:
                part = self._closed(part, reasons.MERGED)
            parts.append(part)
        schema = node.shape.schema
        branches = tuple(_widened(branch, schema) for part in parts for branch in part.branches)
        return _Open("-and-".join(part.label for part in parts), node.shape, node, branches)

    def _join(self, node: JoinNode) -> _Open:
        left = self._settled(self._of(node.left), node)
        right = self._settled(self._of(node.table), node)
        if right.is_stateful or len(right.branches) > 1:
            right = self._closed(right, reasons.MERGED)
        (table,) = right.branches
        named_after = self._of(node.table.parent.parents[0]).label
        number = len(left.branches) + len(left.tables)
        table = replace(table, read=replace(table.read, is_table=True))
        streams = tuple(range(len(left.branches)))
        left = replace(
            left,
            tables=(*left.tables, table),
            steps=tuple(_without_tables(step, streams) for step in left.steps),
        )
        _refuse_doubled(left, node)
        left_schema, table_schema = left.shape.schema, table.shape.schema
        assert table_schema is not None
        spec = node.spec(number, left_schema, table_schema)
        return self._with_step(left, node, spec, f"{left.label}-with-{named_after}")

    def _named(self, node: NamedNode, opened: _Open) -> _Open:
        if opened.rekey is not None:
            opened = self._closed(opened, "")
        branches = opened.branches
        if not opened.is_stateful:
            is_one = len(branches) == 1
            branches = tuple(
                replace(branch, label=node.name if is_one else f"{node.name}-{branch.label}")
                for branch in branches
            )
        return replace(opened, label=node.name, node=node, branches=branches)

    # --- ends of stages -----------------------------------------------------------------------------------

    def _closed(self, opened: _Open, because: str) -> _Open:
        """Its rows in topics of the flow's own, which other stages read."""
        if opened.rekey is not None:
            return self._keyed(opened, opened.rekey, because)
        label, shape = opened.label, opened.shape
        if opened.is_stateful:
            topic_label = label if opened.node is opened.last else f"{label}-rows"
            read = self._stateful_end(opened, topic_label, None, because)
            return _Open(
                label, shape, opened.node, (_Branch(read, label, shape, opened.node, because=because),)
            )
        if len(opened.branches) > 1:
            opened = replace(self._settled(opened, opened.node), name=label)
            read = self._stateful_end(opened, f"{label}-rows", None, because)
            return _Open(
                label, shape, opened.node, (_Branch(read, label, shape, opened.node, because=because),)
            )
        (branch,) = opened.branches
        return replace(opened, branches=(self._cut(branch, because),))

    def _cut(self, branch: _Branch, because: str) -> _Branch:
        """The rows behind a branch's stateless steps, in a topic of the flow's own."""
        name = f"{branch.label}-rows"
        output = self._own_output(name, branch.shape, None)
        kind = StageKind.FRAME if branch.is_framed else StageKind.TASK
        self._add(
            name,
            kind,
            (branch.read,),
            branch.steps,
            output,
            branch.node,
            reasons.cut(branch.because, because),
        )
        return replace(branch, read=_reading(output, branch.shape), steps=(), because="")

    def _keyed(self, opened: _Open, rekey: KeyByNode, because: str) -> _Open:
        """Under another key: the rows of each branch by themselves, for their order is not needed before."""
        fields = rekey.shape.key
        assert fields is not None
        by = "-by-" + "-".join(_label(field.name) for field in fields)
        label, shape = opened.label + by, rekey.shape
        if opened.is_stateful:
            read = self._stateful_end(opened, label, fields, because)
            if rekey.partition_count is not None:
                self._partition_counts[read.topic] = rekey.partition_count
            return _Open(label, shape, rekey, (_Branch(read, label, shape, rekey, because=because),))
        branches: list[_Branch] = []
        for branch in opened.branches:
            name = branch.label + by
            keyed_shape = replace(shape, schema=branch.shape.schema)
            output = self._own_output(name, keyed_shape, fields)
            if rekey.partition_count is not None:
                self._partition_counts[output.topic] = rekey.partition_count
            kind = StageKind.FRAME if branch.is_framed else StageKind.TASK
            self._add(
                name, kind, (branch.read,), branch.steps, output, rekey, reasons.keyed(rekey, branch.because)
            )
            branches.append(_Branch(_reading(output, keyed_shape), name, keyed_shape, rekey, because=because))
        return _Open(label, shape, rekey, tuple(branches))

    def _settled(self, opened: _Open, node: Node) -> _Open:
        """Fit for the merge log: no key to come, no step of Spark's, no topic twice."""
        if opened.rekey is not None:
            opened = self._closed(opened, "")
        if opened.is_stateful:
            return opened
        branches = tuple(
            self._cut(branch, reasons.cut_before(node, branch.node)) if branch.is_framed else branch
            for branch in opened.branches
        )
        topics = Counter(branch.read.topic for branch in branches)
        branches = tuple(
            self._cut(branch, reasons.doubled(branch.read.topic))
            if topics[branch.read.topic] > 1 and branch.steps
            else branch
            for branch in branches
        )
        opened = replace(opened, branches=branches)
        _refuse_doubled(opened, node)
        return opened

    def _stateful_end(
        self, opened: _Open, topic_label: str, key: tuple[Field, ...] | None, because: str
    ) -> Input:
        shape = opened.shape if key is None else replace(opened.shape, key=key, has_record_key=True)
        output = self._own_output(topic_label, shape, key)
        self._stateful(opened, opened.name, output, because)
        return _reading(output, shape)

    def _stateful(self, opened: _Open, name: str, output: Output, because: str = "") -> None:
        inputs = tuple(branch.read for branch in (*opened.branches, *opened.tables))
        before = tuple(
            OnInputs(step, (number,)) if len(inputs) > 1 else step
            for number, branch in enumerate((*opened.branches, *opened.tables))
            for step in branch.steps
        )
        reason = reasons.stateful(inputs, opened.steps, because)
        self._add(
            name, StageKind.TASK, inputs, before + opened.steps, output, opened.node, reason, is_stateful=True
        )

    def _end(self, node: OutputNode, opened: _Open) -> None:
        """The rows go to a topic of the user's."""
        key: tuple[Field, ...] | None = () if opened.shape.has_record_key else None
        if opened.rekey is not None:
            key = opened.rekey.shape.key
        output = Output(node.topic, opened.shape.schema, key=key)
        if opened.is_stateful:
            self._stateful(replace(opened, node=node), opened.name, output)
        elif len(opened.branches) > 1:
            settled = self._settled(replace(opened, rekey=None), node)
            self._stateful(replace(settled, node=node), _label(node.topic), output)
        else:
            (branch,) = opened.branches
            kind = StageKind.FRAME if branch.is_framed else StageKind.TASK
            reason = reasons.output(opened.rekey, branch.because)
            self._add(_label(node.topic), kind, (branch.read,), branch.steps, output, node, reason)

    def _own_output(self, label: str, shape: RowShape, key: tuple[Field, ...] | None) -> Output:
        if key is None:
            key = () if shape.has_record_key else None
        return Output(internal_topic(self._flow, label), shape.schema, is_internal=True, key=key)

    def _add(
        self,
        name: str,
        kind: StageKind,
        inputs: tuple[Input, ...],
        steps: tuple[Any, ...],
        output: Output,
        node: Node,
        reason: reasons.Reason,
        *,
        is_stateful: bool = False,
    ) -> None:
        stage = Stage(
            flow=self._flow,
            name=name,
            kind=kind,
            inputs=inputs,
            steps=steps,
            output=output,
            is_stateful=is_stateful,
            partition_count=0,
            partitions_like=None,
            pattern=reason.pattern,
            reason=reason.text,
            site=str(node.site),
        )
        other = self._stages.setdefault(name, stage)
        if other is not stage and (other.inputs, other.steps, other.output) != (inputs, steps, output):
            raise _clash(name, self._ends[name], node)
        self._ends.setdefault(name, node)

    # --- the whole ----------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """All stages that were added, with their partition counts and the topics that the flow makes."""
        groups, counts = partition_groups(tuple(self._stages.values()), self._partition_counts, self._ends)
        stages = tuple(
            replace(stage, partition_count=count, partitions_like=like)
            for stage in self._stages.values()
            for count, like in [counts.of_stage(stage)]
        )
        own: dict[str, tuple[OwnTopic, Stage]] = {}
        for stage in stages:
            for topic in _own_topics(stage, counts.of_topic(stage.output.topic)):
                if topic.name in own:
                    raise _clash(stage.name, self._ends[own[topic.name][1].name], self._ends[stage.name])
                own[topic.name] = (topic, stage)
        made = tuple(topic for topic, _ in own.values())
        plan = Plan(self._flow, stages, (*made, *_side_topics(self._flow)), groups)
        self._refuse_own_topics(plan)
        return plan

    def _refuse_own_topics(self, plan: Plan) -> None:
        names = Counter(topic.name for topic in plan.own_topics)
        for stage in plan.stages:
            node = self._ends[stage.name]
            if names[stage.topic] > 1 or names[stage.output.topic] > 1:
                raise FlowError(
                    node.text,
                    str(node.site),
                    f"topic {stage.output.topic} is where the flow puts rows that no step takes",
                    _RENAME,
                )
            why = topic_name_error(stage.topic + _LONGEST_SUFFIX) or topic_name_error(stage.output.topic)
            if why is not None:
                raise FlowError(
                    node.text, str(node.site), f"the stage is called {stage.name}: {why}", _RENAME
                )
            for topic in (*(read.topic for read in stage.inputs if not read.is_internal), stage.output.topic):
                if not (stage.output.is_internal and topic == stage.output.topic) and names[topic]:
                    raise FlowError(
                        node.text,
                        str(node.site),
                        f"topic {topic} is one that the flow {plan.flow} makes for itself",
                        'Take another topic, or give the flow another name: .named("...") behind .to(...)',
                    )


_RENAME: Final = 'Put .named("...") in front of it: what is behind is named after that'


def _own_topics(stage: Stage, output_partitions: tuple[int, str | None]) -> Iterable[OwnTopic]:
    if stage.output.is_internal:
        count, like = output_partitions
        yield OwnTopic(stage.output.topic, count, like, f"rows of {stage.name}")
    if stage.is_stateful:
        count, like = stage.partition_count, stage.partitions_like
        yield OwnTopic(stage.merge_topic, count, like, f"merge log of {stage.name}")
        if stage.has_state:
            yield OwnTopic(stage.changelog_topic, count, like, f"changelog of {stage.name}")


def _side_topics(flow: str) -> tuple[OwnTopic, OwnTopic]:
    return (
        OwnTopic(f"{flow}.bad", PARTITION_COUNT, None, "rows that could not be read, with the reason"),
        OwnTopic(f"{flow}.late", PARTITION_COUNT, None, "rows that came after their window was closed"),
    )


def _reading(output: Output, shape: RowShape) -> Input:
    """A topic of the flow's own, as the next stage reads it."""
    return Input(
        output.topic, shape.schema, is_internal=True, is_keyed=shape.key is not None, key=shape.key or ()
    )


def _behind(before: RowShape, made: RowShape) -> RowShape:
    """Of a branch behind a step that was written behind a merge: its rows may have a key that the merged have not."""
    has_record_key = before.has_record_key and made.has_record_key
    return replace(made, key=before.key if has_record_key else None, has_record_key=has_record_key)


def _widened(branch: _Branch, schema: Schema | None) -> _Branch:
    """With the columns of all that it is merged with; those that it lacks are null."""
    if schema is None or branch.shape.schema == schema:
        return branch
    shape = replace(branch.shape, schema=schema)
    if branch.read.is_internal and not branch.steps:  # its values have just the columns that were declared
        return replace(branch, shape=shape, read=replace(branch.read, schema=schema))
    have = branch.shape.schema
    assert have is not None
    if branch.is_framed:
        columns = tuple(
            f"`{field.name}`" if field.name in have else f"CAST(NULL AS {field.kind.value}) AS `{field.name}`"
            for field in schema
        )
        return replace(branch, shape=shape, steps=(*branch.steps, Select(columns, schema)))
    step = Map(Widened(schema), schema, "merge", "1")
    return replace(branch, shape=shape, steps=(*branch.steps, step))


@dataclass(frozen=True)
class Widened:
    """Makes a row with the columns of several streams of a row that has some of them."""

    schema: Schema

    def __call__(self, row: Any) -> Any:
        return self.schema.row_type(*(getattr(row, name, None) for name in self.schema.names))


def _without_tables(step: Any, streams: tuple[int, ...]) -> Any:
    """A step that stands in front of a join: the rows of the join's table pass it by."""
    if isinstance(step, OnInputs):
        return step
    return OnInputs(
        step, streams if (table := getattr(step, "table_input", None)) is None else (*streams, table)
    )


def _refuse_doubled(opened: _Open, node: Node) -> None:
    """A merge log has each topic once: a row is promised once."""
    met: dict[str, _Branch] = {}
    for branch in (*opened.branches, *opened.tables):
        other = met.setdefault(branch.read.topic, branch)
        if other is not branch:
            raise FlowError(
                node.text,
                str(node.site),
                f"it would read topic {branch.read.topic} twice: behind {other.node.text} and behind "
                f"{branch.node.text}",
                'Give one of them a topic of its own: .named("...") in front of its key_by, or key_by where there is none',
            )


def _refuse_topics(nodes: Sequence[Node], outputs: Sequence[OutputNode]) -> None:
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


def _clash(name: str, first: Node, second: Node) -> FlowError:
    return FlowError(
        second.text,
        str(second.site),
        f"its stage would be called {name}, as that of {first.text} at {first.site}, which is another one",
        _RENAME,
    )


def _label(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text)
