"""One error for a flow that stops: which stage, why, what is stored, and what to do."""

from __future__ import annotations

import re
from typing import Final

from semel import errors
from semel.errors import FlowStopped
from semel.flow.plan import Plan
from semel.flow.settling import Settled

_OURS: Final = re.compile(r"semel\.errors\.(\w+): (.+?)(?=\n\s*\n|\n\tat |\n  File |\Z)", re.DOTALL)
_SPARKS: Final = re.compile(r"\[[A-Z][A-Z_]+(\.[A-Z_]+)*\] ")  # what Spark begins a text of its own with
_SPARKS_QUOTE: Final = "=== Streaming Query ==="  # with its plan: behind what Spark has to say
_JAVA_FRAME: Final = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ more$")  # of a trace: where, not what
_JAVA: Final = re.compile(r"(?:Caused by)?: ([\w.$]+(?:Error|Exception)\b.*)")  # an error, or its cause
# Of a process that is gone: a planner's or a committer's ends its query, a task's is tried again a few times.
_LOST: Final = re.compile(
    r"Broken pipe|Connection reset|worker exited unexpectedly|worker failed to connect back|EOFE(rror|xception)|"
    r"ExecutorLostFailure|SparkContext was shut down"
)
_START_AGAIN: Final = frozenset({"SinkFenced", "ReplayDiffers", "ConnectionLost", "BrokerError"})


def reason_of(text: str) -> tuple[str, str]:
    """The name and the text of the error behind Spark's trace; of one that is none of semel's, its last line."""
    found = _OURS.findall(text)
    if found:
        name, words = found[-1]
        return name, " ".join(words.split())
    said = text.partition(_SPARKS_QUOTE)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not _JAVA_FRAME.match(line)]
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)]
    named = [line[match.start() :] for line in lines if (match := _SPARKS.search(line))]
    java = [match[1] for line in lines if (match := _JAVA.match(line))]
    chain = [", caused by ".join(dict.fromkeys((java[0], java[-1])))] if java else []
    words = [line for line in lines if re.search(r"\w", line)]  # Spark underlines what it quotes
    return "", (python or named or chain or words or ["no reason was given"])[-1]


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
