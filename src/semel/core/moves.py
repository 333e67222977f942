"""From state to state by a table, which is all that may lead from one to another.

A state is a frozen dataclass that carries what is true only while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, TypeAlias, TypeVar

S = TypeVar("S")

Table: TypeAlias = Mapping[Any, Mapping[type[S], type[S]]]
"""Event -> state -> the next one."""


def moved(table: Table[Any], state: S, event: Enum, **told: object) -> S:
    """The state that ``event`` leads to; it knows what the event tells, and else what the one before it knew."""
    known = {each.name: getattr(state, each.name) for each in fields(state)}  # type: ignore[arg-type]
    return made_anew(table, state, event, **(known | told))


def made_anew(table: Table[Any], state: S, event: Enum, **told: object) -> S:
    """The state that ``event`` leads to; it knows what the event tells, and nothing of the one before it."""
    kind = table[event].get(type(state))
    assert kind is not None, f"{event.name} cannot come to {state}"
    make: Callable[..., S] = kind
    return make(**{each.name: told[each.name] for each in fields(kind) if each.name in told})
