"""Any flow of generated steps is planned, and its plan does to each row what the flow says.

A row is followed by the trail of steps that it went through: along the tree, and along the stages of the plan, whose
topics carry trails from one to the next. Both have to reach each output with the same trails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.flow.join import Join
from semel.core.flow.steps import OnInputs
from semel.flow import Flow, Keyed, Stream, flow, source
from semel.flow.frame_steps import is_frame_step
from semel.flow.plan import Plan, Stage, StageKind

COLUMNS = "user string, url string, n int"
Trail = tuple[str, ...]


@dataclass
class Grown:
    """A stream, and the trails of the rows in it."""

    stream: Stream
    trails: frozenset[Trail]


def _folding(name: str) -> Callable[..., Any]:
    def step(state: Any, row: Any) -> Any:
        return state, row

    step.__name__ = name
    return step


def _one(name: str) -> Callable[[Any], Any]:
    def step(row: Any) -> Any:
        return row

    step.__name__ = name
    return step


@dataclass
class Builder:
    """Grows a flow step by step; every step has a name of its own."""

    draw: Callable[..., Any]
    grown: list[Grown] = field(default_factory=list)
    count: int = 0

    def name(self, verb: str) -> str:
        self.count += 1
        return f"{verb}{self.count}"

    def pick(self) -> Grown:
        """Rather one of the last: so flows grow long."""
        back = self.draw(st.sampled_from([1, 1, 1, 2, 3, len(self.grown)]))
        return self.grown[-min(back, len(self.grown))]

    def add(self, stream: Stream, trails: Iterable[Trail]) -> None:
        self.grown.append(Grown(stream, frozenset(trails)))

    def through(self, trails: Iterable[Trail], step: str) -> set[Trail]:
        return {(*trail, step) for trail in trails}

    # --- verbs ------------------------------------------------------------------------------------------

    def named(self, of: Grown) -> Grown:
        """Under a name of its own, so that no two stages get one name."""
        return Grown(of.stream.named(self.name("named")), of.trails)

    def source(self) -> None:
        name = self.name("source")
        key = self.draw(st.sampled_from([None, None, "user"]))
        copied = key is not None and self.draw(st.booleans())
        made = source(name, json=COLUMNS, key=key, copied=copied) if key else source(name, json=COLUMNS)
        self.add(made, [(name,)])

    def stateless(self) -> None:
        of, verb = (
            self.named(self.pick()),
            self.draw(st.sampled_from(["map", "filter", "flat_map", "where", "select", "apply"])),
        )
        name = self.name(verb)
        made: Stream
        match verb:
            case "map":
                made = of.stream.map(_one(name), schema=COLUMNS)
            case "filter":
                made = of.stream.filter(_one(name))
            case "flat_map":
                made = of.stream.flat_map(_one(name), schema=COLUMNS)
            case "where":
                made = of.stream.where(f"n > {self.count}")
                name = f"where n > {self.count}"
            case "select":
                made = of.stream.select("user", "url", f"n + {self.count} AS n", schema=COLUMNS)
                name = f"select user, url, n + {self.count} AS n"
            case _:
                made = of.stream.apply(_one(name))
        name = f"{verb} {name}" if verb in ("map", "filter", "flat_map", "apply") else name
        self.add(made, self.through(of.trails, name))

    def keyed(self, of: Grown) -> Keyed:
        stream = of.stream.named(self.name("keyed"))
        column = self.draw(st.sampled_from(["user", "url"]))
        return stream.key_by(column)

    def key_by(self) -> None:
        of = self.pick()
        self.add(self.keyed(of), of.trails)

    def fold(self) -> None:
        of = self.pick()
        stream = of.stream if isinstance(of.stream, Keyed) and self.draw(st.booleans()) else self.keyed(of)
        name = self.name("fold")
        made = stream.named(name).fold(_folding(name), schema=COLUMNS)
        self.add(made, self.through(of.trails, f"fold {name}"))

    def join(self) -> None:
        left, right = self.pick(), self.pick()
        extra = self.name("extra")
        table = right.stream.named(self.name("right")).map(_one(extra), schema=f"user string, {extra} int")
        stream = left.stream.named(self.name("left"))
        if self.draw(st.booleans()):
            stream = stream.key_by("user", partitions=4)
        joined = stream.join(table.as_table("user"))
        is_framed = self.draw(st.booleans())
        made = joined.select("user", "url", "n") if is_framed else joined.map(_one(extra), schema=COLUMNS)
        last = "select user, url, n" if is_framed else f"map {extra}"
        self.add(made, self.through(self.through(left.trails, "join"), last))

    def merge(self) -> None:
        one, other = self.pick(), self.pick()
        if one.stream is other.stream:
            return
        streams = [
            each.stream.named(self.name("merged")).map(_one(self.name("part")), schema=COLUMNS)
            for each in (one, other)
        ]
        parts = [f"map part{self.count - 2}", f"map part{self.count}"]
        trails = self.through(one.trails, parts[0]) | self.through(other.trails, parts[1])
        self.add(streams[0].merge(streams[1]), trails)

    def branch(self) -> None:
        of, name = self.named(self.pick()), self.name("branch")
        is_sql = self.draw(st.booleans())
        condition: Any = f"n > {self.count}" if is_sql else _one(name)
        first, rest = of.stream.branch(condition)
        yes = f"where {condition}" if is_sql else f"filter {name}"
        no = f"where NOT coalesce({condition}, false)" if is_sql else f"filter not {name}"
        self.add(first, self.through(of.trails, yes))
        self.add(rest, self.through(of.trails, no))


@st.composite
def flows(draw: Callable[..., Any]) -> tuple[list[Flow], dict[str, frozenset[Trail]]]:
    """Outputs, and the trails that each has to get."""
    builder = Builder(draw)
    builder.source()
    verbs = ["source", "stateless", "stateless", "key_by", "fold", "fold", "join", "join", "merge", "branch"]
    for _ in range(draw(st.integers(0, 16))):
        getattr(builder, draw(st.sampled_from(verbs)))()
    outputs: list[Flow] = []
    expected: dict[str, frozenset[Trail]] = {}
    for _ in range(draw(st.integers(1, 4))):
        grown, topic = builder.pick(), builder.name("out")
        outputs.append(grown.stream.to(topic))
        expected[topic] = grown.trails
    return outputs, expected


def trails_of(plan: Plan) -> dict[str, frozenset[Trail]]:
    """What each topic gets, along the stages."""
    topics: dict[str, frozenset[Trail]] = {topic: frozenset({(topic,)}) for topic in plan.source_topics}
    for stage in plan.stages:
        at = {number: set(topics[read.topic]) for number, read in enumerate(stage.inputs)}
        for step in stage.steps:
            _follow(stage, step, at)
        assert not any(trails for number, trails in at.items() if stage.inputs[number].is_table), (
            "a table passed by"
        )
        assert stage.output.topic not in topics, "a topic has one writer"
        topics[stage.output.topic] = frozenset(trail for trails in at.values() for trail in trails)
    return topics


def _follow(stage: Stage, step: Any, at: dict[int, set[Trail]]) -> None:
    inner, inputs = (step.step, step.inputs) if isinstance(step, OnInputs) else (step, tuple(at))
    if isinstance(inner, Join):
        assert stage.inputs[inner.table_input].is_table
        at[inner.table_input] = set()
        inputs = inner.stream_inputs
    elif inner.name in ("merge", "key_by") or "CAST(NULL AS" in inner.name:
        return  # the planner's own: other columns, or the same key anew
    for number in inputs:
        assert not (stage.inputs[number].is_table and at[number] and not isinstance(step, OnInputs)), (
            "a table's rows"
        )
        at[number] = {(*trail, inner.name) for trail in at[number]}


def check_shape(plan: Plan) -> None:
    """What every plan holds to."""
    made: set[str] = set(plan.source_topics)
    names: set[str] = set()
    for stage in plan.stages:
        assert stage.name not in names
        names.add(stage.name)
        assert all(read.topic in made for read in stage.inputs), (
            "what is read was written by a stage in front"
        )
        made.add(stage.output.topic)
        assert len({read.topic for read in stage.inputs}) == len(stage.inputs)
        frames = [step for step in stage.steps if is_frame_step(step)]
        assert bool(frames) == (stage.kind is StageKind.FRAME)
        assert not (frames and stage.is_stateful), "what reads a merge log never goes through Spark"
        assert stage.is_stateful or len(stage.inputs) == 1
        assert stage.is_stateful or not stage.has_state
        if stage.has_state:
            assert all(read.is_keyed for read in stage.inputs)
            assert len({read.key for read in stage.inputs}) == 1, "inputs of one key"
        for read in stage.inputs:
            assert not read.is_promised or (stage.is_stateful and read.is_keyed)
        assert stage.partition_count > 0 or stage.partitions_like is not None
    own = [topic.name for topic in plan.own_topics]
    assert len(set(own)) == len(own)
    assert {stage.output.topic for stage in plan.stages if stage.output.is_internal} <= set(own)
    assert not set(own) & {*plan.source_topics, *plan.output_topics}


@given(flows())
@settings(max_examples=settings().max_examples * 3 // 2)
def test_any_flow_is_planned_and_its_plan_does_what_it_says(made: Any) -> None:
    outputs, expected = made
    plan = flow("generated", *outputs).plan()
    check_shape(plan)
    reached = trails_of(plan)
    assert {topic: reached[topic] for topic in expected} == expected
    again = flow("generated", *outputs).plan()
    assert again == plan
    assert [stage.plan_text for stage in again.stages] == [stage.plan_text for stage in plan.stages]


@given(flows())
def test_an_output_more_changes_no_name(made: Any) -> None:
    outputs, _ = made
    all_of_it = flow("generated", *outputs).plan()
    for number in range(1, len(outputs)):
        fewer = flow("generated", *outputs[:number]).plan()
        assert {stage.sink_id for stage in fewer.stages} <= {stage.sink_id for stage in all_of_it.stages}
        states = {stage.name: _state_steps(stage) for stage in all_of_it.stages}
        for stage in fewer.stages:  # a step that is taken elsewhere, too, ends a stage
            assert _state_steps(stage)[: len(states[stage.name])] == states[stage.name]


def _state_steps(stage: Stage) -> list[Any]:
    return json.loads(stage.state_text)["steps"] if stage.state_text else []
