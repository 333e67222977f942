"""What the planner holds of a flow's rows while the stage that makes them has no end yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from semel.core.flow.join import Join
from semel.core.flow.lineage import Dedupe
from semel.core.flow.schema import Field, Schema
from semel.core.flow.steps import KeyBy, Map, OnInputs
from semel.core.flow.windows import Window
from semel.errors import FlowError
from semel.flow.frame_steps import Select, is_frame_step
from semel.flow.plan import Input, Output, StageKind, Tombstones
from semel.flow.tree import KeyByNode, Node, RowShape


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows of one topic, and stateless steps that no stage runs yet."""

    read: Input
    label: str
    shape: RowShape  # behind the steps
    node: Node  # the last step
    steps: tuple[Any, ...] = ()
    because: str = ""  # why its topic is there, where that could be avoided
    base: Branch | None = None  # as it was merged with others, without the steps behind that

    @property
    def is_framed(self) -> bool:
        """Whether Spark has to run one of its steps."""
        return any(is_frame_step(step) for step in self.steps)

    @property
    def kind(self) -> StageKind:
        """Of a stage that ends with it."""
        return StageKind.FRAME if self.is_framed else StageKind.TASK


@dataclass(frozen=True, slots=True)
class Open:
    """What a node's rows are made of so far, where the stage that makes them has no end yet."""

    label: str
    shape: RowShape
    node: Node
    branches: tuple[Branch, ...]
    tables: tuple[Branch, ...] = ()
    steps: tuple[Any, ...] = ()  # behind the merge log; only of a stateful stage
    name: str = ""  # of the stateful stage; "": stateless
    first: Node | None = None  # the first step with state, which names the stage
    last: Node | None = None  # the last one
    rekey: KeyByNode | None = None  # the key that the end of the stage gives
    renamed: str = ""  # what is behind that key is named so

    @property
    def is_stateful(self) -> bool:
        """Whether it reads through a merge log."""
        return bool(self.name)

    def renamed_to(self, name: str) -> Open:
        """With what is behind named after ``name``."""
        is_one = len(self.branches) == 1
        branches = self.branches
        if not self.is_stateful:
            branches = tuple(
                replace(branch, label=name if is_one else f"{name}-{branch.label}") for branch in branches
            )
        return replace(self, label=name, branches=branches, renamed="")


def reading(output: Output, shape: RowShape, tombstones: Tombstones) -> Input:
    """A topic of the flow's own, as the next stage reads it; ``tombstones``: what became of them in the one before."""
    return Input(
        output.topic,
        shape.schema,
        is_internal=True,
        is_keyed=shape.key is not None,
        key=shape.key or (),
        has_tombstones=tombstones is Tombstones.PASSED,
        has_record=output.has_record,
    )


def without_promise(read: Input) -> Input:
    """As a stage reads it that does not go by the key."""
    return replace(read, is_keyed=False, key=(), is_promised=False) if read.is_promised else read


def deleting(read: Input, tombstones: Tombstones) -> Input:
    """As a stage reads it that does not go by the key of rows, only by that of tombstones that it passes on."""
    if read.is_promised and tombstones is Tombstones.PASSED:
        return replace(read, is_keyed=False, tombstones=tombstones)
    return replace(without_promise(read), tombstones=tombstones)


def unpromised(branch: Branch, tombstones: Tombstones) -> tuple[Branch, tuple[Field, ...] | None]:
    """A branch that a topic of the flow's own is made of, and the key for that; ``None``: the key as it came.

    A promise about the key is kept by making it anew: of the columns at the end, or, where a step has changed them, of
    those that were read.
    """
    key = branch.read.key
    bare = replace(branch, read=deleting(branch.read, tombstones))
    if not branch.read.is_promised:
        return bare, None
    if branch.shape.is_key_in_columns:
        return bare, key
    if not branch.shape.has_record_key:
        return bare, None
    return replace(bare, steps=(KeyBy(tuple(field.name for field in key)), *branch.steps)), None


def behind(before: RowShape, made: RowShape) -> RowShape:
    """Of a branch behind a step that was written behind a merge: its rows may have a key that the merged have not."""
    has_record_key = before.has_record_key and made.has_record_key
    return replace(made, key=before.key if has_record_key else None, has_record_key=has_record_key)


def widened(branch: Branch, schema: Schema | None) -> Branch:
    """With the columns of all that it is merged with; those that it lacks are null."""
    if schema is None or branch.shape.schema == schema:
        return branch
    shape = replace(branch.shape, schema=schema)
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


def keeps_no_input(steps: tuple[Any, ...]) -> bool:
    """Whether rows behind these are no longer those of the one input or the other, as behind a fold."""
    return any(step.is_stateful and not isinstance(step, Join | Dedupe) for step in steps)


def idle_times(steps: tuple[Any, ...]) -> set[int]:
    """Those of the windows among these."""
    return {step.idle_ms for step in steps if isinstance(step, Window)}


def without_tables(step: Any, streams: tuple[int, ...]) -> Any:
    """A step that stands in front of a join: the rows of the join's table pass it by, as they pass other joins."""
    return step if isinstance(step, OnInputs) or step.is_stateful else OnInputs(step, streams)


def steps_in_front(opened: Open) -> tuple[Any, ...]:
    """The steps of the single inputs, for the stage that reads them all; what all streams end with is done for all."""
    streams, count = opened.branches, len(opened.branches) + len(opened.tables)
    if count == 1:
        return streams[0].steps
    shared = 0
    while all(len(stream.steps) > shared for stream in streams) and all(
        stream.steps[-1 - shared] == streams[0].steps[-1 - shared] for stream in streams
    ):
        shared += 1
    alone = tuple(
        OnInputs(step, (number,))
        for number, part in enumerate((*streams, *opened.tables))
        for step in part.steps[: len(part.steps) - (shared if number < len(streams) else 0)]
    )
    together = streams[0].steps[len(streams[0].steps) - shared :]
    if not opened.tables:
        return alone + together
    return alone + tuple(OnInputs(step, tuple(range(len(streams)))) for step in together)


def refuse_doubled(opened: Open, node: Node) -> None:
    """A merge log has each topic once: a row is promised once."""
    met: dict[str, Branch] = {}
    for branch in (*opened.branches, *opened.tables):
        if (other := met.get(branch.read.topic)) is not None:
            raise FlowError(
                node.text,
                str(node.site),
                f"it would read topic {branch.read.topic} twice: behind {other.node.text} and behind "
                f"{branch.node.text}",
                'Give one of them a topic of its own: .named("...") in front of its key_by, or a key_by',
            )
        met[branch.read.topic] = branch
