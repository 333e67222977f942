"""Why the sink stops, as a value with its evidence; the shell raises the exception of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.sink.routing import Routing


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


# No advice may lose or double a row by being followed. A new sinkId, or a reset, knows nothing of what was decided:
# a query that begins before it doubles rows, and one that begins behind it loses some.
ANEW: Final = (
    "a new topic, under a new {} and from startingOffsets=earliest, which is exact as long as the source has all its "
    "rows"
)
NAMED_PREFIX: Final = "txn."  # of the sink ids of named batch writes
BATCH_WRITER_PREFIX: Final = "write:"  # of the writers of all batch writes


_ANEW_FLOW: Final = (
    "a flow of another name, to new topics and from the beginning of its inputs, which is exact as long as they have "
    "all their rows"
)


def is_stage(sink_id: str) -> bool:
    """Whether it is a flow's stage that writes: ``flow/stage``. No user's sinkId holds a slash."""
    return "/" in sink_id


def subject(sink_id: str) -> str:
    """As its user named it."""
    if is_stage(sink_id):
        flow, _, stage = sink_id.partition("/")
        return f"stage {stage!r} of flow {flow!r}"
    if sink_id.startswith(NAMED_PREFIX):
        return f"txnAppId {sink_id.removeprefix(NAMED_PREFIX)!r}"
    return f"sink {sink_id!r}"


def anew(sink_id: str) -> str:
    """The way out that is always exact, and the longest."""
    if is_stage(sink_id):
        return _ANEW_FLOW
    return ANEW.format("txnAppId" if sink_id.startswith(NAMED_PREFIX) else "sinkId")


def replay_differs(evidence: str, way_out: str = "") -> Refusal:
    """Differs for ever: its text names the way out, here or where it is passed on."""
    return Refusal(Reason.REPLAY_DIFFERS, f"{evidence}. {way_out}" if way_out else evidence)


def from_the_decided_ends(sink_id: str) -> str:
    """The way out wherever what is planned is not what is decided."""
    if is_stage(sink_id):
        return (
            "Run the flow again: it goes on where the log has decided to. (Not after `semel sink reset`: rows come "
            "twice then, or are left out)"
        )
    return (
        f"Go on where the log has decided to: with a new, empty checkpoint folder and startingOffsets=sink:{sink_id}, "
        f"under the same sinkId. (Not with a new sinkId, nor after `semel sink reset`: rows come twice then, or are "
        f"left out)"
    )


def unprovable(evidence: str, sink_id: str) -> Refusal:
    """The output tells no more what is stored of an unfinished micro-batch, so that no way out in it is exact."""
    if is_stage(sink_id):
        return Refusal(Reason.REPLAY_UNPROVABLE, f"{evidence}. The exact way is {anew(sink_id)}")
    if sink_id.startswith(NAMED_PREFIX):
        return Refusal(
            Reason.REPLAY_UNPROVABLE,
            f"{evidence}. Under a new txnAppId this version is written whole, and rows of it that are still there come "
            f"a second time. Where there may be none, the way is {anew(sink_id)}",
        )
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"{evidence}. Take a new sinkId, with a new checkpoint folder and startingOffsets=sink:{sink_id}: what was "
        f"decided stays so, and rows of an unfinished micro-batch that are still there come a second time. Where "
        f"there may be none, the way is {anew(sink_id)}",
    )


def one_at_a_time(sink_id: str) -> str:
    """What whoever was overtaken should know."""
    if is_stage(sink_id):
        return "A flow runs in one place at a time"
    return "Two queries must not share a sinkId, nor two jobs write under one txnAppId at a time"


def other_routing(sink_id: str, written: Routing, planned: Routing | None) -> Refusal:
    """Rows are undecided, and would go elsewhere when they come again."""
    return Refusal(
        Reason.REPLAY_DIFFERS,
        f"rows of {subject(sink_id)} that are not decided yet were written to {written}, and the query now writes to "
        f"{planned}: they would come to stand there a second time. Nothing was written now. Set it back until they "
        f"are decided, then change it",
    )
