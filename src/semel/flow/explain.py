"""What a plan is, in words: the stages, what each reads and writes, its pattern, and why it is that one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from semel.core.flow.schema import Field, Schema
from semel.core.flow.steps import OnInputs
from semel.flow.durations import short_duration
from semel.flow.plan import Input, Output, Plan, Stage, StageKind, Tombstones
from semel.wording import counted

WIDTH: Final = 110
_RUNS: Final = {StageKind.FRAME: "spark", StageKind.TASK: "python"}


def explain_document(plan: Plan) -> dict[str, Any]:
    """As JSON values, for programs."""
    return {
        "flow": plan.flow,
        "sources": list(plan.source_topics),
        "outputs": list(plan.output_topics),
        "bad": plan.bad_topic,
        "late": plan.late_topic,
        "needs_spark": plan.needs_spark,
        "stages": [_stage_document(stage) for stage in plan.stages],
        "own_topics": [
            {
                "name": own.name,
                "partitions": own.partition_count or None,
                "like": own.like,
                "purpose": own.purpose,
            }
            for own in plan.own_topics
        ],
    }


def explain_text(plan: Plan) -> str:
    """For people: a table of the stages, each stage by itself, and the topics that the flow makes."""
    summary = (
        f"flow {plan.flow}: {counted(len(plan.stages), 'stage')}, each a query of its own; "
        f"{'runs on Spark' if plan.needs_spark else 'runs with or without Spark'}.\n"
        f"A topic with a dot in front is its own: .x is {plan.flow}.x"
    )
    rows = [
        (
            stage.name,
            _RUNS[stage.kind],
            " + ".join(_short(read.topic, plan) for read in stage.inputs),
            stage.pattern,
            _short(stage.output.topic, plan),
        )
        for stage in plan.stages
    ]
    own = [(own.name, _partitions(own.partition_count, own.like), own.purpose) for own in plan.own_topics]
    blocks = [
        summary,
        _table(("STAGE", "RUNS", "READS", "PATTERN", "WRITES"), rows),
        *("\n".join(_stage_lines(stage)) for stage in plan.stages),
        "topics of the flow's own, kept for ever\n" + _table(("TOPIC", "PARTITIONS", "PURPOSE"), own),
    ]
    return "\n\n".join(blocks) + "\n"


def _short(topic: str, plan: Plan) -> str:
    return topic.removeprefix(plan.flow) if topic in {own.name for own in plan.own_topics} else topic


# --- one stage --------------------------------------------------------------------------------------------


def _stage_lines(stage: Stage) -> Iterator[str]:
    yield stage.name
    where = "in Spark" if stage.kind is StageKind.FRAME else "in the sink's tasks"
    yield from _wrapped("query", f"{stage.sink_id}, {where}")
    for read in stage.inputs:
        yield from _wrapped("reads", _input_text(read))
    for step in stage.steps:
        yield from _wrapped("step", _step_text(step, stage.inputs))
    yield from _wrapped("writes", _output_text(stage.output))
    if stage.is_stateful:
        partitions = _partitions(stage.partition_count, stage.partitions_like)
        yield from _wrapped("order", f"recorded in {stage.merge_topic}, {partitions} partitions")
    if stage.idle_ms:
        yield from _wrapped(
            "time", f"goes on where a partition has no row for {short_duration(stage.idle_ms)}"
        )
    yield from _wrapped("state", _state_text(stage))
    yield from _wrapped("why", f"{stage.pattern}. {stage.reason}")


def _stage_document(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "query": stage.sink_id,
        "runs": _RUNS[stage.kind],
        "reads": [
            {
                "topic": read.topic,
                "columns": _columns(read.schema),
                "key": _names(read.key) if read.is_keyed else None,
                "is_own": read.is_internal,
                "is_table": read.is_table,
            }
            for read in stage.inputs
        ],
        "steps": [_step_text(step, stage.inputs) for step in stage.steps],
        "writes": {
            "topic": stage.output.topic,
            "columns": _columns(stage.output.schema),
            "key": _output_key(stage.output),
            "record": stage.output.has_record,
            "is_own": stage.output.is_internal,
        },
        "pattern": stage.pattern,
        "why": stage.reason,
        "state": stage.has_state,
        "merge_log": stage.merge_topic if stage.is_stateful else None,
        "changelog": stage.changelog_topic if stage.has_state else None,
        "idle_ms": stage.idle_ms or None,
        "partitions": stage.partition_count or None,
        "partitions_like": stage.partitions_like,
        "written_at": stage.site,
    }


def _input_text(read: Input) -> str:
    what = _columns(read.schema) or "bytes"
    key = f", keyed by {', '.join(_names(read.key))}" if read.is_keyed else ""
    proven = ", which is proven of each row" if read.is_promised and read.is_keyed else ""
    gone = "; without a value: on to the table" if read.tombstones is Tombstones.PASSED else ""
    return f"{read.topic}{' as a table' if read.is_table else ''}: {what}{key}{proven}{gone}"


def _step_text(step: Any, inputs: Sequence[Input]) -> str:
    if not isinstance(step, OnInputs):
        return str(step.name)
    seen = [inputs[number] for number in step.inputs]
    if seen == [read for read in inputs if not read.is_table]:
        return str(step.name)
    return f"{step.name}, on {' and '.join(read.topic for read in seen)}"


def _output_text(output: Output) -> str:
    key = {"none": "no key", "as it came": "the key as it came"}.get(
        _output_key(output), f"keyed by {_output_key(output)}"
    )
    record = "; with the time and headers of their records" if output.has_record else ""
    return f"{output.topic}: {_columns(output.schema) or 'rows as they are'}; {key}{record}"


def _output_key(output: Output) -> str:
    if output.key is None:
        return "none"
    return ", ".join(_names(output.key)) or "as it came"


def _state_text(stage: Stage) -> str:
    if not stage.has_state:
        return "none"
    steps = ", ".join(step.name for step in stage.steps if step.is_stateful)
    return (
        f"of {steps}: rides in the decisions while it is small, then in {stage.changelog_topic} and on the disk of "
        f"whoever works on it"
    )


# --- text -------------------------------------------------------------------------------------------------


def _columns(schema: Schema | None) -> str | None:
    return None if schema is None else schema.ddl


def _names(fields: tuple[Field, ...]) -> list[str]:
    return [field.name for field in fields]


def _partitions(count: int, like: str | None) -> str:
    return f"as many as {like}" if like is not None else str(count)


def _wrapped(head: str, text: str) -> Iterator[str]:
    indent = " " * 10
    first = f"  {head:<8}"
    yield from textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *rows)
    )
