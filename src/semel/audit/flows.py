"""A flow's audit: each stage equals a replay of its recorded inputs, as :mod:`semel.flow.replay` finds it.

What was trimmed cannot be proven any more: neither right nor wrong, it keeps the whole from being proven, and is told.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from semel.audit.adding import Adding, TopicReading
from semel.audit.checks import count_repeats
from semel.audit.identity import IdentityRule, KeyFrom
from semel.audit.read import bounds_of, read_pieces
from semel.audit.report import NOT_COMPARED
from semel.audit.store import RowStore
from semel.client.blocking import Cluster
from semel.wording import counted

_WHOLE_ROW: Final = IdentityRule(KeyFrom.ROW)
_NOT_COMPARED: Final = (
    "what the steps ought to give: the replay runs the same ones",
    "the partitions and order of rows of different writers",
)
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
    untimed: int
    keeps_time: bool
    differences: tuple[str, ...]
    left_out: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class SharedOutput:
    """An output that holds rows of others; ``repeats``: how many of them equal a row of the flow's."""

    topic: str
    rows: int
    repeats: int
    text: str


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow beside its replay."""

    flow: str
    stages: tuple[StageAudit, ...]
    elapsed_ms: int = 0
    shared: tuple[SharedOutput, ...] = ()

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
        return (
            *(f"{stage.stage}: {each}" for stage in self.stages for each in stage.left_out),
            *(
                f"{counted(each.repeats, 'row')} of others in {each.topic} "
                f"{'equals a row' if each.repeats == 1 else 'equal rows'} of this flow, as where it has run under "
                "another name, too"
                for each in self.shared
                if each.repeats
            ),
        )

    @property
    def not_compared(self) -> tuple[str, ...]:
        """What a reader could take for compared."""
        found = [each.text for each in self.shared]
        for stage in self.stages:
            if stage.undecided:
                found.append(f"{counted(stage.undecided, 'row')} of {stage.stage} behind its last decision")
            if stage.lag:
                found.append(f"{counted(stage.lag, 'offset')} that {stage.stage} has not read yet")
            if stage.untimed:
                found.append(
                    f"the times of {counted(stage.untimed, 'row')} of {stage.stage}: the log has set its own there "
                    f"(LogAppendTime)"
                )
        found += _NOT_COMPARED
        timeless = [stage.stage for stage in self.stages if not stage.keeps_time]
        if timeless:
            which = "" if len(timeless) == len(self.stages) else f" of {', '.join(timeless)}"
            found.append(f"timestamps of rows{which}: they have the time of writing")
        if len(timeless) < len(self.stages):
            found.append("timestamps of bad rows, and of those whose records have a time that no clock has")
        return tuple(found)

    @property
    def verdict(self) -> str:
        return "proven" if self.holds else "violated" if self.is_violated else "not proven"

    def conclusion(self) -> str:
        """The verdict in one line."""
        if self.is_violated:
            return f"NOT PROVEN: {self.flow} is not a replay of its recorded inputs"
        if self.unproven:
            return f"NOT PROVEN: of {self.flow} what could be compared is the same; {self.unproven[0]}"
        proven = f"PROVEN: each stage of {self.flow} equals a replay of its recorded inputs"
        return "; ".join([proven, *(each.text for each in self.shared)])

    def as_lines(self) -> list[str]:
        """For a person: first what was not compared, last the verdict."""
        gaps = [f"{NOT_COMPARED}: {each}" for each in self.not_compared]
        return [
            *gaps,
            *(line for stage in self.stages for line in stage.text.splitlines()),
            self.conclusion(),
        ]

    def as_document(self) -> dict[str, Any]:
        """JSON's view; stable names."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "unproven": list(self.unproven) or None,
            "not_compared": list(self.not_compared),
            "flow": self.flow,
            "elapsed_ms": self.elapsed_ms,
            "shared_outputs": [
                {"topic": each.topic, "rows": each.rows, "repeats": each.repeats} for each in self.shared
            ],
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
            stage.untimed,
            stage.keeps_time,
            tuple(map(str, stage.differences)),
            tuple(stage.left_out),
            stage.text(),
        )
        for stage in replay.stages
    )
    found = [each for stage in replay.stages for each in stage.outputs.items()]
    shared: list[SharedOutput] = []
    if found:
        with Cluster(bootstrap) as cluster:
            shared = [
                SharedOutput(
                    topic, others.row_count, _repeats(cluster, topic, others.own_ids), others.text(topic)
                )
                for topic, others in found
            ]
    return FlowReport(replay.flow, stages, int((time.monotonic() - began) * 1000), tuple(shared))


def _repeats(cluster: Cluster, topic: str, own_ids: frozenset[int]) -> int:
    """How many rows of others in a flow's output equal one of its own."""
    reading = TopicReading(topic, _WHOLE_ROW, None)
    first, end = bounds_of(cluster, topic)
    with RowStore() as store:
        sides = {is_own: store.rows(topic) for is_own in (True, False)}
        adding = {is_own: Adding(rows, reading) for is_own, rows in sides.items()}
        for piece in read_pieces(cluster, first, end):
            for is_own, table in piece.tables(parted_by=lambda stored: stored.header.producer_id in own_ids):
                for records in table.to_batches():
                    adding[is_own](piece.partition, records, sequenced=True)
        return count_repeats(sides[True], sides[False])
