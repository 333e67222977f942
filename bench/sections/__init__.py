"""The sections of the benchmark, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.plan import Plan
from bench.results import Section


@dataclass(frozen=True, slots=True)
class Bench:
    """What a section is given: a scratch folder of its own, the plan, and where to tell of progress."""

    folder: Path
    plan: Plan
    tell: Callable[[str], None]


Measure = Callable[[Bench], Section]
