"""Why the sink stops, as a value with its evidence; the shell raises the exception of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
