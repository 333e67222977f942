"""Why the sink stops, as a value with its evidence; the shell raises the exception of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.core.sink.journal import Routing


class Reason(Enum):
    """Names the exception of :mod:`semel.errors` that the shell raises."""

    SINK_FENCED = "SinkFenced"
    REPLAY_DIFFERS = "ReplayDiffers"
    NON_DETERMINISTIC_REPLAY = "NonDeterministicReplay"
    REPLAY_UNPROVABLE = "ReplayUnprovable"
    PLAN_NOT_SUPPORTED = "PlanNotSupported"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A stop before a row is doubled or lost."""

    reason: Reason
    evidence: str


def replay_differs(evidence: str) -> Refusal:
    """Differs for ever: the text always names the way out."""
    return Refusal(
        Reason.REPLAY_DIFFERS,
        f"{evidence}. What the log has decided cannot be undone: take a new sinkId, or give this one up with "
        f"`semel sink reset`",
    )


def other_routing(sink_id: str, written: Routing, planned: Routing | None) -> Refusal:
    """Rows are undecided, and would go elsewhere when they come again."""
    return Refusal(
        Reason.REPLAY_DIFFERS,
        f"rows of sink {sink_id!r} that are not decided yet were written to {written}, and the query now writes to "
        f"{planned}: they would come to stand there a second time. Nothing was written now. Set it back until they "
        f"are decided, then change it",
    )
