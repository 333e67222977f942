"""A plan in a few short lines, for tests of what it is cut into."""

from __future__ import annotations

from semel.core.flow.steps import OnInputs
from semel.flow import Flow
from semel.flow.plan import Input, Plan, Stage, StageKind


def plan_lines(flow: Flow | Plan) -> list[str]:
    """``name: spark|python|state|order  inputs > steps > output`` for each stage, in its order."""
    plan = flow if isinstance(flow, Plan) else flow.plan()
    return [_line(stage, plan.flow) for stage in plan.stages]


def _line(stage: Stage, flow: str) -> str:
    kind = "spark" if stage.kind is StageKind.FRAME else "python"
    if stage.is_stateful:
        kind = "state" if stage.has_state else "order"
    inputs = " + ".join(_input(read, flow) for read in stage.inputs)
    steps = ", ".join(_step(step) for step in stage.steps)
    key = (
        "nokey" if stage.output.key is None else ",".join(field.name for field in stage.output.key) or "same"
    )
    middle = f" > {steps}" if steps else ""
    return f"{stage.name}: {kind}  {inputs}{middle} > {_short(stage.output.topic, flow)}[{key}]"


def _input(read: Input, flow: str) -> str:
    mark = ("*" if read.is_promised else "") + ("^" if read.is_table else "")
    return _short(read.topic, flow) + mark


def _short(topic: str, flow: str) -> str:
    return "." + topic.removeprefix(f"{flow}.") if topic.startswith(f"{flow}.") else topic


def _step(step: object) -> str:
    if isinstance(step, OnInputs):
        return f"{step.name}@{'+'.join(map(str, step.inputs))}"
    return str(step.name)  # type: ignore[attr-defined]
