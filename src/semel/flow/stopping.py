"""One error for a flow that stops: which stage, why, what is stored, and what to do."""

from __future__ import annotations

import re
from typing import Final

from semel import errors
from semel.errors import FlowStopped
from semel.flow.plan import Plan
from semel.flow.settling import Settled
from semel.spark.reasons import reason_of

# Of a process that is gone: a planner's or a committer's ends its query, a task's is tried again a few times.
_LOST: Final = re.compile(
    r"Broken pipe|Connection reset|worker exited unexpectedly|worker failed to connect back|EOFE(rror|xception)|"
    r"ExecutorLostFailure|SparkContext was shut down"
)
_START_AGAIN: Final = frozenset({"SinkFenced", "ReplayDiffers", "ConnectionLost", "BrokerError"})


def is_rows_fault(failed: BaseException) -> bool:
    """Whether the stage may have failed at a row; else the log, or another driver, has ended it."""
    name, _ = _named(failed)
    return name in ("", "StepFailed")


def why_stopped(plan: Plan, stage: str, failed: BaseException, settled: Settled | None = None) -> FlowStopped:
    """The error of the flow for that of one of its stages; ``settled`` is what was found of a frame stage's rows."""
    at, stored = "", "What its stages have decided is stored and stays, and the others were stopped too."
    if settled is not None:
        if settled.position is not None and settled.reason is not None:
            failed, at = settled.reason, f" at {settled.position}"
            stored = (
                "What comes before that row is stored and stays, nothing of the row itself is, and the other stages "
                "were stopped too."
            )
        if not settled.is_decided:
            stored += (
                " Rows of this stage are stored that are not decided: before it is changed, it has to run once more as "
                "it is."
            )
    name, words = _named(failed)
    is_lost = not name and not at and _LOST.search(words) is not None
    if is_lost:
        words = f"Spark lost one of its processes: {words}"
    again = (
        " Start it again: it goes on where it has decided to."
        if is_lost or name in _START_AGAIN
        else " Mend that and start it again: it goes on where it has decided to."
    )
    return FlowStopped(
        f"flow {plan.flow!r} stopped at stage {stage!r}{at}: {name + ': ' if name else ''}{words.rstrip('.')}. {stored}"
        f"{again}"
    )


def _named(failed: BaseException) -> tuple[str, str]:
    if isinstance(failed, errors.SemelError):
        return type(failed).__name__, str(failed)
    return reason_of(str(failed))
