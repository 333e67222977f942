"""Cutting one stream in several: a row goes to the first branch whose condition is true, or to the rest.

Each branch is a chain of stateless steps of its own: not the conditions in front of it, and its own. So what reads one
branch only never works on the others' rows, and no branch has to wait for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from semel.core.flow.functions import name_of, takes_tables
from semel.core.flow.steps import Filter
from semel.flow import checks
from semel.flow.calls import Call
from semel.flow.frame_steps import Where
from semel.flow.functions import version_of
from semel.flow.tree import RowShape

Condition = str | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Not:
    """Rows for which a function is not true."""

    function: Callable[..., Any]

    def __call__(self, *given: Any) -> bool:
        return not self.function(*given)


def branch_steps(call: Call, shape: RowShape, conditions: Sequence[Condition]) -> list[tuple[Any, ...]]:
    """The steps of each branch, the rest last."""
    if not conditions:
        raise call.refuse("there is no condition", "Name one or more; the rest is a stream by itself")
    for condition in conditions:
        if isinstance(condition, str):
            checks.refuse_no_text(call, condition, "a condition", "")
            checks.refuse_misspelled(call, condition, call.schema_of(shape, "a condition in SQL"), shape)
        else:
            call.row_function(condition, shape)
            if takes_tables(condition):
                raise call.refuse("a branch asks each row by itself", "Write the condition for one row")
    branches: list[tuple[Any, ...]] = []
    before: tuple[Any, ...] = ()
    for condition in conditions:
        takes_record = not isinstance(condition, str) and call.row_function(condition, shape)
        branches.append((*before, _where(condition, takes_record)))
        before = (*before, _where_not(condition, takes_record))
    return [*branches, before]


def _where(condition: Condition, takes_record: bool) -> Any:
    if isinstance(condition, str):
        return Where(condition.strip())
    return Filter.of(condition, version=version_of(condition), takes_record=takes_record)


def _where_not(condition: Condition, takes_record: bool) -> Any:
    if isinstance(condition, str):
        return Where(f"NOT coalesce({condition.strip()}, false)")
    name = f"filter not {name_of(condition)}"
    return Filter.of(Not(condition), name=name, version=version_of(condition), takes_record=takes_record)
