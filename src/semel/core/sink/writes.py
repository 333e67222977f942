"""Named batch writes (``txnAppId``, ``txnVersion``): which version may be written now.

Versions are decided one at a time. While one stands half in the output, no other may be: a decision moves
the scan's start past the half one's rows, and its rerun would write them again; and a version below a decided
one is skipped for ever, so the rest of it would be lost.
"""

from __future__ import annotations

from semel.core.sink.history import SinkHistory
from semel.core.sink.ranges import Verdict
from semel.core.sink.refusal import Refusal, replay_differs

_PREFIX = "write:"


def writers_of_write(write_id: str) -> str:
    """The prefix of every writer name of one batch write; no write id holds a slash."""
    return f"{_PREFIX}{write_id}/"


def judge_version(history: SinkHistory, version: int) -> Verdict | Refusal:
    """Skip a version that is decided or below one that is; write the one that was begun, or the next."""
    decided = -1
    if history.decision is not None and history.decision.txn_version is not None:
        decided = history.decision.txn_version
    if version <= decided:
        return Verdict.SKIP
    begun = {_version_of(name) for name in history.writers}
    unfinished = sorted(other for other in begun if other > decided and other != version)
    if unfinished:
        return replay_differs(
            f"version {unfinished[0]} of {history.sink_id!r} was begun and is not decided, and this is version "
            f"{version}: run version {unfinished[0]} again first"
        )
    return Verdict.WRITE


def _version_of(writer: str) -> int:
    return int(writer.removeprefix(_PREFIX).split("/")[0])
