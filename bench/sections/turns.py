"""Contenders in worker processes take turns at one work after the other."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.results import Row
from bench.sections import Bench

# Does the work once, on a topic or checkpoint with this name; the figure.
Attempt = Callable[[str], float]

_numbers = itertools.count()  # no name is given twice


@dataclass(frozen=True, slots=True)
class Work:
    """One row of a table."""

    name: str
    unit: str
    attempts: Mapping[str, Attempt]  # by contender
    less_is_better: bool = False


def take_turns(bench: Bench, work: Work) -> Row:
    """Warm up each contender, then let them do the work round by round, who begins alternating."""
    for name, attempt in work.attempts.items():
        warm_at_s = time.monotonic() + bench.plan.warm_up_s
        while time.monotonic() < warm_at_s:
            figure = attempt(f"warm-up-{next(_numbers)}")
            bench.tell(f"{work.name}: {name}, warming up, {figure:,.4g} {work.unit}")
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(bench.plan.rounds):
        contenders = list(work.attempts)
        for name in contenders if number % 2 == 0 else reversed(contenders):
            os.sync()  # nobody pays for what another has left to write
            found[name].append(work.attempts[name](f"round-{next(_numbers)}"))
            bench.tell(f"{work.name}: {name} {found[name][-1]:,.4g} {work.unit}")
    return Row(work.name, work.unit, {name: found[name] for name in work.attempts}, work.less_is_better)
