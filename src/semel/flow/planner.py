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
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from semel.core.flow.join import Join
from semel.core.flow.schema import Field
from semel.core.flow.windows import Window
from semel.flow import reasons
from semel.flow.frame_steps import is_frame_step
from semel.flow.opened import (
    Branch,
    Open,
    behind,
    deleting,
    idle_times,
    keeps_no_input,
    reading,
    refuse_doubled,
    steps_in_front,
    unpromised,
    widened,
    without_promise,
    without_tables,
)
from semel.flow.own_topics import clash, own_topics, refuse_topics
from semel.flow.partitions import partition_groups
from semel.flow.plan import Input, Output, Plan, Stage, StageKind, above, internal_topic
from semel.flow.tombstones import TombstonesOf
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


def plan_flow(flow: str, outputs: Sequence[OutputNode]) -> Plan:
    """The stages of a flow; :class:`~semel.errors.FlowError` where its steps do not go together."""
    nodes = in_order(outputs)
    refuse_topics(nodes, outputs)
    planner = _Planner(flow, nodes)
    for node in nodes:
        planner.take(node)
    return planner.plan()


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
        self._tombstones = TombstonesOf(nodes, self._same)
        self._open: dict[int, Open] = {}
        self._stages: dict[str, Stage] = {}
        self._named_by: dict[str, Node] = {}  # the step that gave each stage its name
        self._asked: dict[str, KeyByNode] = {}  # what gives the rows of own topics their key

    # --- nodes --------------------------------------------------------------------------------------------

    def take(self, node: Node) -> None:
        """Plan what this node adds; its parents have been taken."""
        if self._same[id(node)] is not node:
            return
        opened = self._opened(node)
        if opened is None:
            return
        if opened.is_stateful and self._takers[id(node)] > 1:
            opened = self._closed(opened, reasons.SHARED)
        self._open[id(node)] = opened

    def _of(self, node: Node) -> Open:
        return self._open[id(self._same[id(node)])]

    def _opened(self, node: Node) -> Open | None:
        match node:
            case SourceNode():
                return self._source(node)
            case StatelessNode():
                return self._stateless(node, self._of(node.parent))
            case KeyByNode():
                return self._key_by(node, self._of(node.parent))
            case StatefulNode():
                return self._stateful_step(node, self._of(node.parent))
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

    def _source(self, node: SourceNode) -> Open:
        shape, label = node.shape, _label(node.topic)
        read = Input(
            node.topic,
            shape.schema,
            is_keyed=shape.key is not None,
            key=shape.key or (),
            is_promised=shape.key is not None,
            has_headers=node.is_doubled,
            has_record=shape.has_record,
        )
        if node.is_copied:
            raw = replace(read, schema=None, is_keyed=False, key=(), is_promised=False)
            topic = internal_topic(self._flow, f"{label}-copy")
            output = Output(topic, None, is_internal=True, key=(), has_record=shape.has_record)
            self._add(f"{label}-copy", StageKind.TASK, (raw,), (), output, node, reasons.COPY)
            read = replace(read, topic=output.topic, is_internal=True)
        return Open(label, shape, node, (Branch(read, label, shape, node),))

    def _stateless(self, node: StatelessNode, opened: Open) -> Open:
        is_framed = any(is_frame_step(step) for step in node.specs)
        suffix = "" if node.part is None else f"-{node.part}"
        if opened.rekey is not None or (opened.is_stateful and is_framed):
            cause = opened.last if opened.rekey is None else opened.rekey
            because = reasons.cut_behind(node, cause) if is_framed and cause is not None else ""
            opened = self._closed(opened)
            opened = replace(opened, branches=tuple(replace(b, because=because) for b in opened.branches))
        opened = replace(opened, label=opened.label + suffix, shape=node.shape, node=node)
        if opened.is_stateful:
            return replace(opened, steps=opened.steps + node.specs)
        return replace(
            opened,
            branches=tuple(
                replace(
                    branch,
                    label=branch.label + suffix,
                    shape=behind(branch.shape, node.shape),
                    node=node,
                    steps=branch.steps + node.specs,
                )
                for branch in opened.branches
            ),
        )

    def _key_by(self, node: KeyByNode, opened: Open) -> Open:
        shape = opened.shape
        if node.partition_count is None and shape.key == node.shape.key and shape.is_key_in_columns:
            return replace(opened, node=node)
        if opened.renamed:
            opened = opened.renamed_to(opened.renamed)
        return replace(opened, rekey=node, shape=node.shape, node=node)  # nothing has needed a key before it

    def _stateful_step(self, node: StatefulNode, opened: Open) -> Open:
        spec = node.spec
        if isinstance(spec, Window) and len(opened.branches) > 1 and keeps_no_input(opened.steps):
            opened = self._closed(opened, reasons.TIMED)
        if isinstance(spec, Window) and idle_times(opened.steps) - {spec.idle_ms}:
            opened = self._closed(opened, reasons.RESTED)
        opened = self._settled(opened, node)
        if isinstance(spec, Window):
            spec = replace(spec, inputs=tuple(range(len(opened.branches))))
        return self._with_step(opened, node, spec, f"{opened.label}-{_label(node.label)}")

    def _with_step(self, opened: Open, node: Node, spec: Any, label: str) -> Open:
        return replace(
            opened,
            label=label,
            shape=node.shape,
            node=node,
            steps=(*opened.steps, spec),
            name=opened.name or label,
            first=opened.first or node,
            last=node,
        )

    def _merge(self, node: MergeNode) -> Open:
        parts: list[Open] = []
        for parent in node.merged:
            part = self._of(parent)
            if part.rekey is not None or part.is_stateful:
                part = self._closed(part, reasons.MERGED)
            parts.append(part)
        schema = node.shape.schema
        widened_branches = (widened(branch, schema) for part in parts for branch in part.branches)
        branches = tuple(replace(branch, base=replace(branch, base=None)) for branch in widened_branches)
        return Open("-and-".join(part.label for part in parts), node.shape, node, branches)

    def _join(self, node: JoinNode) -> Open:
        left = self._of(node.left)
        if keeps_no_input(left.steps):
            left = self._closed(left, reasons.joined(node))
        left = self._settled(left, node)
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
            steps=tuple(without_tables(step, streams) for step in left.steps),
        )
        refuse_doubled(left, node)
        stream_schema, table_schema, key = left.shape.schema, table.shape.schema, table.shape.key
        assert stream_schema is not None
        assert table_schema is not None
        assert key is not None
        spec = Join(number, stream_schema, table_schema, key, node.how, node.is_repairing, streams)
        return self._with_step(left, node, spec, f"{left.label}-with-{named_after}")

    def _named(self, node: NamedNode, opened: Open) -> Open:
        if opened.rekey is not None:  # what gives the key stands in front, and has its name
            return replace(opened, node=node, renamed=node.name)
        return replace(opened.renamed_to(node.name), node=node)

    # --- ends of stages -----------------------------------------------------------------------------------

    def _closed(self, opened: Open, why: str = "") -> Open:
        """Its rows in topics of the flow's own, which other stages read. ``why``: what asks for such a topic."""
        if opened.rekey is not None:
            closed = self._keyed(opened, opened.rekey, why)
            return closed.renamed_to(opened.renamed) if opened.renamed else closed
        if opened.is_stateful:
            label = opened.label if opened.steps[-1].is_stateful else f"{opened.label}-out"
            output = self._own_output(label, opened.shape, None)
            return self._closed_stateful(opened, output, opened.label, why)
        opened = replace(self._settled(opened, opened.node), name=opened.label)
        output = self._own_output(f"{opened.label}-rows", opened.shape, None)
        return self._closed_stateful(opened, output, opened.label, why)

    def _closed_stateful(self, opened: Open, output: Output, label: str, why: str) -> Open:
        self._stateful(opened, opened.name, output, why)
        read = reading(output, opened.shape, self._tombstones.of(opened.node))
        branch = Branch(read, label, opened.shape, opened.node)
        return Open(label, opened.shape, opened.node, (branch,))

    def _cut(self, branch: Branch, why: str) -> Branch:
        """The rows behind a branch's stateless steps, in a topic of the flow's own.

        Steps of Python behind a merge are left for later, so that all that take the merged rows read one topic.
        """
        base = branch.base
        if base is not None and base.steps and not any(map(is_frame_step, branch.steps[len(base.steps) :])):
            steps = branch.steps[len(base.steps) :]
            return replace(branch, read=self._cut(base, why).read, steps=steps, because="")
        name = f"{branch.label}-rows"
        tombstones = self._tombstones.of(branch.node)
        branch, key = unpromised(branch, tombstones)
        output = self._own_output(name, branch.shape, key)
        reason = reasons.cut(branch.because, why)
        self._add(name, branch.kind, (branch.read,), branch.steps, output, branch.node, reason)
        return replace(branch, read=reading(output, branch.shape, tombstones), steps=(), because="")

    def _keyed(self, opened: Open, rekey: KeyByNode, why: str) -> Open:
        """Under another key: the rows of each branch by themselves, for their order is not needed before."""
        fields = rekey.shape.key
        assert fields is not None
        by = "-by-" + "-".join(_label(field.name) for field in fields)
        label = opened.label + by
        if opened.is_stateful:
            output = self._own_output(label, rekey.shape, fields)
            self._ask(output.topic, rekey)
            return self._closed_stateful(replace(opened, node=rekey, shape=rekey.shape), output, label, why)
        branches: list[Branch] = []
        tombstones = self._tombstones.of(rekey)
        for branch in opened.branches:
            name, shape = branch.label + by, replace(rekey.shape, schema=branch.shape.schema)
            output = self._own_output(name, shape, fields)
            self._ask(output.topic, rekey)
            reason = reasons.keyed(rekey, branch.read, branch.steps, branch.because)
            read = deleting(branch.read, tombstones)
            self._add(name, branch.kind, (read,), branch.steps, output, rekey, reason)
            branches.append(Branch(reading(output, shape, tombstones), name, shape, rekey))
        return Open(label, rekey.shape, rekey, tuple(branches))

    def _ask(self, topic: str, rekey: KeyByNode) -> None:
        """For the number of partitions that a ``key_by`` wants."""
        other = self._asked.setdefault(topic, rekey)
        if other.partition_count != rekey.partition_count:
            raise clash(topic, other, rekey)

    def _settled(self, opened: Open, node: Node) -> Open:
        """Fit for the merge log: no key to come, no step of Spark's, no topic twice."""
        if opened.rekey is not None:
            opened = self._closed(opened)
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
        refuse_doubled(opened, node)
        return opened

    def _stateful(self, opened: Open, name: str, output: Output, why: str = "") -> None:
        parts = (*opened.branches, *opened.tables)
        needs_key = any(step.is_stateful for step in opened.steps) or opened.shape.key is not None
        tombstones = self._tombstones.of(opened.node)
        inputs = tuple(
            replace(part.read if needs_key else without_promise(part.read), tombstones=tombstones)
            for part in parts
        )
        before = steps_in_front(opened)
        reason = reasons.stateful(inputs, opened.steps, why)
        self._add(
            name,
            StageKind.TASK,
            inputs,
            before + opened.steps,
            output,
            opened.node,
            reason,
            is_stateful=True,
            named_by=opened.first,
        )

    def _end(self, node: OutputNode, opened: Open) -> None:
        """The rows go to a topic of the user's."""
        key: tuple[Field, ...] | None = () if opened.shape.has_record_key else None
        if opened.rekey is not None:
            key = opened.rekey.shape.key
        output = Output(node.topic, opened.shape.schema, key=key, has_record=opened.shape.has_record)
        if opened.is_stateful:
            self._stateful(replace(opened, node=node), opened.name, output)
        elif len(opened.branches) > 1:
            settled = self._settled(replace(opened, rekey=None), node)
            self._stateful(replace(settled, node=node), _label(node.topic), output)
        else:
            (branch,) = opened.branches
            reason = reasons.output(opened.rekey, branch.because)
            read = without_promise(branch.read)
            self._add(_label(node.topic), branch.kind, (read,), branch.steps, output, node, reason)

    def _own_output(self, label: str, shape: RowShape, key: tuple[Field, ...] | None) -> Output:
        if key is None:
            key = () if shape.has_record_key else None
        topic = internal_topic(self._flow, label)
        return Output(topic, shape.schema, is_internal=True, key=key, has_record=shape.has_record)

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
        named_by: Node | None = None,
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
            raise clash(name, self._named_by[name], named_by or node)
        self._named_by.setdefault(name, named_by or node)

    # --- the whole ----------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """All stages that were added, with their partition counts and the topics that the flow makes."""
        asked = {
            topic: node.partition_count
            for topic, node in self._asked.items()
            if node.partition_count is not None
        }
        groups, counts = partition_groups(tuple(self._stages.values()), asked, self._named_by)
        stages = tuple(
            replace(stage, partition_count=count, partitions_like=like)
            for stage in self._stages.values()
            for count, like in [counts.of_stage(stage)]
        )
        stages = tuple(replace(stage, above=above(stage, stages)) for stage in stages)
        own = own_topics(self._flow, stages, counts, self._named_by)
        return Plan(self._flow, stages, own, groups)


def _label(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text)
