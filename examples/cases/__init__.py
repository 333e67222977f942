"""For each example its input, made by a seed, and what comes out of it by plain Python or pandas.

A case knows nothing of how a flow runs. What is expected is worked out from what stands in the input's topics, so
that whoever fed them may have been killed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from examples.topics import Given

NAMES = ("word_count", "sessions", "orders", "flights")


@dataclass(frozen=True, slots=True)
class Case:
    """One example's."""

    flow: str  # the variable in the example's file
    topics: Mapping[str, int]  # its input's, with their partitions
    rows: Callable[[Random, int], Sequence[Given]]  # a part of the input: by its number
    wrong: Callable[[str], list[str]]  # what is not as it should be, when the flow has come to its end
    first: Callable[[], Sequence[Given]] = tuple  # what is there before it begins
    last: Callable[[], Sequence[Given]] = tuple  # what ends it


def case(name: str) -> Case:
    """The case of an example."""
    from importlib import import_module

    found: Case = import_module(f"examples.cases.{name}").CASE
    return found


def differing(what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> list[str]:
    """In words, the first few keys whose values are not the expected ones."""
    wrong = sorted(
        (key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)), key=str
    )
    told = [f"{what} {key}: {found.get(key)!r} instead of {expected.get(key)!r}" for key in wrong[:5]]
    return told + ([f"{what}: {len(wrong)} of {len(expected)} are wrong"] if len(wrong) > 5 else [])
