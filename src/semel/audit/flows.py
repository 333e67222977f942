"""A flow's audit: each stage equals a replay of its recorded inputs, as :mod:`semel.flow.replay` finds it.

What was trimmed cannot be proven any more: neither right nor wrong, it keeps the whole from being proven, and is told.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_DECIDED_NOTHING: Final = "nothing is decided yet: run the flow first"


@dataclass(frozen=True, slots=True)
class StageAudit:
    """One stage beside its replay: what was the same, what was not, and what cannot be said."""

    stage: str
    decisions: int
    rows: int
    keys: int
    undecided: int
    lag: int
    differences: tuple[str, ...]
    left_out: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow beside its replay."""

    flow: str
    stages: tuple[StageAudit, ...]
    elapsed_ms: int = 0

    @property
    def is_violated(self) -> bool:
        return any(stage.differences for stage in self.stages)

    @property
    def holds(self) -> bool:
        """Each stage is the same, wholly, and some has decided something."""
        return not self.is_violated and not self.unproven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What cannot be said of it."""
        if not any(stage.decisions for stage in self.stages):
            return (_DECIDED_NOTHING,)
        return tuple(f"{stage.stage}: {each}" for stage in self.stages for each in stage.left_out)

    @property
    def verdict(self) -> str:
        return "proven" if self.holds else "violated" if self.is_violated else "not proven"

    def conclusion(self) -> str:
        """The verdict in one line."""
        if self.is_violated:
            return f"NOT PROVEN: {self.flow} is not a replay of its recorded inputs"
        if self.unproven:
            return f"NOT PROVEN: of {self.flow} what could be compared is the same; {self.unproven[0]}"
        return f"PROVEN: each stage of {self.flow} equals a replay of its recorded inputs"

    def as_lines(self) -> list[str]:
        """For a person; the last line is the verdict."""
        return [*(line for stage in self.stages for line in stage.text.splitlines()), self.conclusion()]

    def as_document(self) -> dict[str, Any]:
        """JSON's view; stable names."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "unproven": list(self.unproven) or None,
            "flow": self.flow,
            "elapsed_ms": self.elapsed_ms,
            "stages": [
                {
                    name: list(value) if isinstance(value, tuple) else value
                    for name in StageAudit.__slots__
                    if name != "text"
                    for value in (getattr(stage, name),)
                }
                for stage in self.stages
            ],
        }

    def tables(self) -> list[tuple[str, Sequence[str], list[Sequence[Any]]]]:
        """The same as tables: heading, heads, rows."""
        counts = [
            (stage.stage, stage.decisions, stage.rows, stage.keys, stage.undecided, stage.lag)
            for stage in self.stages
        ]
        found = [("violated", stage.stage, each) for stage in self.stages for each in stage.differences]
        found += [("not provable", stage.stage, each) for stage in self.stages for each in stage.left_out]
        heads = (
            "stage",
            "decisions",
            "rows the same",
            "keys the same",
            "rows not decided",
            "offsets to come",
        )
        return [("Stages", heads, list(counts)), ("What was found", ("", "stage", ""), list(found))]


def audit_flow(plan: Any, bootstrap: str) -> FlowReport:
    """Replay what the flow ``plan`` has decided on the server at ``bootstrap``; nothing is fenced or written."""
    from semel.flow.replay import replay_anyhow

    began = time.monotonic()
    replay = replay_anyhow(plan, bootstrap)
    stages = tuple(
        StageAudit(
            stage.stage,
            stage.decisions,
            stage.rows,
            stage.keys,
            stage.undecided,
            stage.lag,
            tuple(map(str, stage.differences)),
            tuple(stage.left_out),
            stage.text(),
        )
        for stage in replay.stages
    )
    return FlowReport(replay.flow, stages, int((time.monotonic() - began) * 1000))
