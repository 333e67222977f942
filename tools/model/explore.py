"""Breadth-first search of an acyclic transition system, so that the first counter-example is a shortest one.

A model has ``init``, ``steps``, ``check`` (what is wrong with a state as it stands) and ``ending`` (of a state where
nothing can happen any more: how it came out, so that a search which has found nothing shows that it has seen an end).
A crash is a process that takes no further step: the states where it went on and those where it did not are both
looked at, because any other process may step in its place.

A state is kept as its 64-bit hash, with its parent's and the step between, so that the way to it can be told. A
state with a violation is not followed further: what lies behind it says nothing of the rules.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Step(NamedTuple):
    """One request with its answer, of one process."""

    label: str
    state: Any
    violation: str | None = None


class Model(Protocol):
    """A transition system."""

    def init(self, config: Any) -> Any: ...

    def steps(self, state: Any, config: Any) -> list[Step]: ...

    def check(self, state: Any, config: Any, steps: list[Step]) -> str | None: ...

    def ending(self, state: Any) -> str: ...


@dataclass(slots=True)
class Explored:
    """What a search has seen; ``found`` is the shortest way to each kind of violation."""

    state_count: int = 0
    elapsed_s: float = 0.0
    depth: int = 0
    is_complete: bool = False
    found: dict[str, list[str]] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)


def explore(
    model: Model, config: Any, *, states_max: int, seconds_max: float, wanted: frozenset[str] = frozenset()
) -> Explored:
    """All states, level by level; ends early at one of the ``wanted`` violations, or at a bound."""
    begun_s = time.process_time()
    first = model.init(config)
    parents: dict[int, tuple[int, str] | None] = {hash(first): None}
    seen = Explored()
    level = [first]
    while level:
        deeper = []
        for state in level:
            seen.state_count += 1
            steps = model.steps(state, config)
            broken: list[tuple[str | None, str | None]] = [(model.check(state, config, steps), None)]
            broken += [(step.violation, step.label) for step in steps if step.violation]
            for kind, label in broken:
                if kind is not None and kind not in seen.found:
                    seen.found[kind] = _way(parents, hash(state)) + ([] if label is None else [label])
            seen.elapsed_s = time.process_time() - begun_s
            if seen.found.keys() & wanted or seen.elapsed_s > seconds_max or len(parents) > states_max:
                return seen
            if broken[0][0] is not None:
                continue
            if not steps:
                seen.endings[model.ending(state)] += 1
            for step in steps:
                reached = hash(step.state)
                if step.violation is None and reached not in parents:
                    parents[reached] = (hash(state), step.label)
                    deeper.append(step.state)
        level = deeper
        seen.depth += 1
    seen.is_complete = True
    return seen


def _way(parents: dict[int, tuple[int, str] | None], reached: int) -> list[str]:
    labels = []
    while (step := parents[reached]) is not None:
        reached, label = step
        labels.append(label)
    return labels[::-1]
