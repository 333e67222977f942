"""What was measured, as values that a later run can take up: ``bench/results.json``.

A run that ended early is continued section by section; a whole one is replaced by the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work: by contender, its figure of each round."""

    work: str
    unit: str
    samples: Mapping[str, list[float]]
    less_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Rows with the same contenders. Each of ``ours`` has a ratio to the rival; what is beside has none."""

    title: str
    about: str
    rows: tuple[Row, ...]
    rival: str = ""
    ours: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """A section with the circumstances in which it was measured."""

    section: Section
    plan: str
    machine: dict[str, str]
    measured_at: str
    took_s: float
    load_before: float  # what else ran: the machine's load average before the section


@dataclass(slots=True)
class Results:
    """Everything measured so far, by the name of the section."""

    machine: dict[str, str]
    command: str
    complete: bool = False
    measurements: dict[str, Measurement] = field(default_factory=dict)

    def save(self, path: Path = RECORD) -> None:
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(asdict(self), indent=1) + "\n")
        fresh.replace(path)


def load(path: Path = RECORD) -> Results | None:
    """What an earlier run left; None when there was none."""
    if not path.is_file():
        return None
    found = json.loads(path.read_text())
    measurements = {name: _measurement(each) for name, each in found.pop("measurements").items()}
    return Results(**found, measurements=measurements)


def _measurement(found: dict[str, Any]) -> Measurement:
    section = found.pop("section")
    rows = tuple(Row(**row) for row in section.pop("rows"))
    lists: dict[str, Any] = {name: tuple(section.pop(name)) for name in ("ours", "beside", "notes")}
    return Measurement(Section(**section, **lists, rows=rows), **found)
