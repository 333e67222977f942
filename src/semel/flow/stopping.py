"""One error for a flow that stops: which stage, why, what is stored, and what to do."""

from __future__ import annotations

import re
from typing import Final

from semel import errors
from semel.errors import FlowStopped
from semel.flow.plan import Plan

_OURS: Final = re.compile(r"semel\.errors\.(\w+): (.+?)(?=\n\s*\n|\n\tat |\n  File |\Z)", re.DOTALL)
_START_AGAIN: Final = frozenset({"SinkFenced", "ReplayDiffers", "ConnectionLost", "BrokerError"})


def reason_of(text: str) -> tuple[str, str]:
    """The name and the text of the error behind Spark's trace; of one that is none of semel's, its last line."""
    found = _OURS.findall(text)
    if found:
        name, words = found[-1]
        return name, " ".join(words.split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)]
    return "", (python or lines or ["no reason was given"])[-1]


def why_stopped(plan: Plan, stage: str, failed: BaseException) -> FlowStopped:
    """The error of the flow for that of one of its stages."""
    if isinstance(failed, errors.SemelError):
        name, words = type(failed).__name__, str(failed)
    else:
        name, words = reason_of(str(failed))
    again = (
        " Start it again: it goes on where it has decided to."
        if name in _START_AGAIN
        else " Mend that and start it again: it goes on where it has decided to."
    )
    return FlowStopped(
        f"flow {plan.flow!r} stopped at stage {stage!r}: {name + ': ' if name else ''}{words.rstrip('.')}. What its "
        f"stages have decided is stored and stays, and the others were stopped too.{again}"
    )
