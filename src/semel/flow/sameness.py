"""What two runs of a flow on the same rows have to agree on, and where they do not.

The runs cut their entries otherwise, so what they owe each other depends on what stands in front of a topic:

* rows that came through steps of single rows and typed folds are the same for each key, in their order;
* where several writers meet under a key, the rows are the same and their order is nobody's promise;
* a ready fold writes a row for each key of an entry: the last row of each key is the same;
* what depends on which rows are read together beyond that (windows, what a join meets, several inputs, a fold over
  Arrow tables, and all that is made of such rows) is compared by a replay of its recorded entries alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any, Final

from semel.core.flow.folds import Fold
from semel.core.flow.ready import Count, Last, Max, Min, Sum
from semel.core.flow.steps import OnInputs
from semel.flow.plan import Plan, Stage

_NO_ROW: Final = object()

Keyed = tuple[bytes | None, bytes | None]  # a record's key and value


class Sameness(Enum):
    """How far the rows of a topic agree."""

    IN_ORDER = "the rows of each key, in their order"
    ANY_ORDER = "the rows of each key"
    LAST = "the last row of each key"
    NONE = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One key of a topic that has other rows in the two runs."""

    key: bytes | None
    what: str  # in words, with both
    is_missing: bool = False  # in one of the runs there is no such row

    def __str__(self) -> str:
        return f"{'without a key' if self.key is None else f'key {text_of(self.key)}'}: {self.what}"


def sameness(plan: Plan, partition_counts: Mapping[str, int]) -> dict[str, Sameness]:
    """By output topic of each stage. ``partition_counts``: of every topic that a stage reads."""
    found: dict[str, Sameness] = {}
    for stage in plan.stages:
        found[stage.output.topic] = _of_stage(stage, found, partition_counts)
    return found


def _of_stage(stage: Stage, found: Mapping[str, Sameness], partition_counts: Mapping[str, int]) -> Sameness:
    if len(stage.inputs) > 1:
        return Sameness.NONE
    (read,) = stage.inputs
    same = found.get(read.topic, Sameness.IN_ORDER)
    if same is Sameness.LAST:
        return Sameness.NONE
    for step in stage.steps:
        same = _behind(step, same)
    keeps_key = stage.output.key == () or stage.output.key == read.key
    if keeps_key or partition_counts.get(read.topic) == 1:
        return Sameness.NONE if same is Sameness.LAST and not keeps_key else same
    return Sameness.ANY_ORDER if same is Sameness.IN_ORDER else _unless_last(same)


def _behind(step: Any, same: Sameness) -> Sameness:
    """Of the rows that ``step`` makes of rows that are the same so far."""
    if isinstance(step, OnInputs):
        step = step.step
    if not step.is_stateful:
        return _unless_last(same)
    if isinstance(step, Fold):
        return same if same is Sameness.IN_ORDER else Sameness.NONE
    if isinstance(step, Count | Min | Max) and same is not Sameness.LAST:
        return Sameness.LAST if same is not Sameness.NONE else same
    if isinstance(step, Sum | Last) and same is Sameness.IN_ORDER:  # sums of floats go by the order
        return Sameness.LAST
    return Sameness.NONE


def _unless_last(same: Sameness) -> Sameness:
    return Sameness.NONE if same is Sameness.LAST else same


def differences(same: Sameness, one: Iterable[Keyed], other: Iterable[Keyed]) -> list[Difference]:
    """Where the records of a topic do not agree as they have to; each run's in the order of its partitions."""
    if same is Sameness.NONE:
        return []
    first, second = _by_key(one), _by_key(other)
    found = []
    for key in dict.fromkeys([*first, *second]):
        rows, again = first.get(key, []), second.get(key, [])
        if key is None and same is Sameness.LAST:
            continue
        differs = _difference(Sameness.ANY_ORDER if key is None else same, rows, again)
        if differs is not None:
            found.append(Difference(key, *differs))
    return found


def _by_key(records: Iterable[Keyed]) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found


def _difference(
    same: Sameness, rows: Sequence[bytes | None], again: Sequence[bytes | None]
) -> tuple[str, bool] | None:
    """The first one, in words, and whether it is that of a row that is not there."""
    if same is Sameness.LAST:
        rows, again = rows[-1:], again[-1:]
    elif same is Sameness.ANY_ORDER:
        gone, new = Counter(rows) - Counter(again), Counter(again) - Counter(rows)
        rows, again = list(gone.elements()), list(new.elements())
    for number, (was, now) in enumerate(zip_longest(rows, again, fillvalue=_NO_ROW), start=1):
        if was != now:
            where = {Sameness.LAST: "the last row", Sameness.ANY_ORDER: "a row"}.get(same, f"row {number}")
            is_missing = _NO_ROW in (was, now)
            return f"{where} was {_shown(was)}, and then {_shown(now)}", is_missing
    return None


def _shown(value: Any) -> str:
    return "not there" if value is _NO_ROW else text_of(value)


def text_of(value: bytes | None) -> str:
    """A key or a value as people read it."""
    return "null" if value is None else value.decode(errors="backslashreplace")
