"""A frame stage whose rows Spark could not work on: find the row, decide what comes before it, and say where it is.

Spark ends all tasks of a micro-batch when one fails, so rows of it stand undecided, and a mended flow would be refused
until the flow has run once more as it was; which fails. (A task stage ends its attempt in front of such a row by
itself.) So before the flow stops, the stage's micro-batch is tried in parts that write nothing, until each partition's
rows in front of the one that fails are known; those are decided in one more micro-batch. Then nothing is undecided.

What is stored of a partition came of rows in front of the one that fails, in any run of the stage: all of it is met
again. An older run may have left rows of another partition from behind this micro-batch's end; then it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from semel.flow.plan import Stage
from semel.flow.stage_ranges import Cuts, PlainRanges, StageTask
from semel.spark.offsets import Json, from_json, ids_from_json, to_json
from semel.spark.options import Connection
from semel.spark.resuming import Resumption, has_undecided, resume
from semel.types import TopicPartition

MICRO_BATCHES_MAX: Final = 16

Tried = Callable[[StageTask], BaseException | None]  # what its rows fail with, if they do
Decided = Callable[[Resumption, Json], None]  # one micro-batch up to these ends


@dataclass(frozen=True, slots=True)
class Settled:
    """What was found."""

    position: str | None  # of the first row that fails; None: none did
    reason: BaseException | None
    is_decided: bool  # nothing of the stage is undecided any more


def settle(stage: Stage, connection: Connection, cuts: Cuts, tried: Tried, decided: Decided) -> Settled:
    """Decide all that comes before the rows that fail."""
    failing: dict[TopicPartition, tuple[int, BaseException]] = {}
    for _ in range(MICRO_BATCHES_MAX):
        resumed = resume(connection, stage.sink_id)
        ranges = PlainRanges(stage, connection, cuts, resumed)
        start = ranges.initial()
        end = ranges.next_end(start)
        begun, ends = from_json(start), from_json(end)
        for task in ranges.tasks(start, end) if end != start else ():
            source = task.source_range.source
            ends[source], why = good_end(task, tried)
            if why is not None:
                failing[source] = (ends[source], why)
        if all(ends[source] == begun.get(source, ends[source]) for source in ends):
            break
        decided(resumed, to_json(ends, ids_from_json(end)))
        if not has_undecided(connection, stage.sink_id):
            break
    is_decided = not has_undecided(connection, stage.sink_id)
    if not failing:
        return Settled(None, None, is_decided)
    source, (offset, reason) = min(failing.items())
    return Settled(
        f"topic {source.topic!r}, partition {source.partition}, offset {offset}", reason, is_decided
    )


def good_end(task: StageTask, tried: Tried) -> tuple[int, BaseException | None]:
    """Behind the last row that all comes through up to, and what the next one fails with."""

    def part(first: int, end: int) -> BaseException | None:
        return tried(replace(task, planned=replace(task.planned, read_from=first, read_end=end)))

    first, end = task.planned.read_from, task.planned.read_end
    why = part(first, end)
    if why is None:
        return end, None
    while end - first > 1:
        middle = (first + end) // 2
        failed = part(first, middle)
        if failed is None:
            first = middle
        else:
            end, why = middle, failed
    if (alone := part(first, end)) is None:
        return first, why  # not the row, but what stands around it: stop where it was last seen to fail
    return first, alone
