"""Named batch writes (``txnAppId``, ``txnVersion``): which version may be written now, and which was.

Versions are decided one at a time. While one stands half in the output, no other may be: a decision moves
the scan's start past the half one's rows, and its rerun would write them again; and a version below a decided
one is never written, so the rest of it would be lost.

A version is a name that somebody gave, and another may give it to other rows: a query whose checkpoint is lost
numbers its micro-batches from 0 again, and one whose older checkpoint was put back plans the same micro-batch with
other rows. So a version that is not above the last decided one is skipped only when it is proven to be decided:
the same number of rows with the same order-free hash, and, in a streaming query, the same query's same
micro-batch. (Equal rows alone prove nothing there: every micro-batch of a count is one row.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import NamedWrite
from semel.core.sink.ranges import Verdict
from semel.core.sink.refusal import BATCH_WRITER_PREFIX, NAMED_PREFIX, Reason, Refusal, anew, subject
from semel.core.sink.run import Ticket

KEPT_MAX: Final = 32  # decided versions that a DECISION speaks of


def writers_of_write(write_id: str) -> str:
    """The prefix of every writer name of one batch write without a name; no write id holds a slash."""
    return f"{BATCH_WRITER_PREFIX}{write_id}/"


def writers_of_version(version: int) -> str:
    """The prefix of every writer name of a version, whoever writes it."""
    return f"{BATCH_WRITER_PREFIX}{version}~"


def writer_of(version: int, query_id: str | None, batch_id: int | None, spark_partition: int) -> str:
    """The name of a task's writer. What another query began under this version is another's."""
    of_query = "" if query_id is None else f"{query_id}~{batch_id}"
    return f"{writers_of_version(version)}{of_query}/{spark_partition}"


def judge_version(history: SinkHistory, version: int) -> Verdict | Refusal:
    """Write the version that was begun, or the next; skip those that are not above the last decided one.

    What is skipped has to be the same: :func:`judge_rerun`.
    """
    decided = _last_decided(history)
    if version <= decided:
        return Verdict.SKIP
    unfinished = [other for other in begun_versions(history) if other != version]
    if unfinished:
        return _differs(
            f"version {unfinished[0]} of {subject(history.sink_id)} was begun and is not decided, and this is version "
            f"{version}: run version {unfinished[0]} again first, with the same rows. If nobody has them any more, "
            f"{_ANEW}"
        )
    return Verdict.WRITE


def begun_versions(history: SinkHistory) -> list[int]:
    """Versions that may stand half in the output."""
    decided = _last_decided(history)
    return sorted({version for name in history.writers if (version := _version_of(name)) > decided})


def may_write_version(ticket: Ticket, writer: str) -> Refusal | None:
    """Before a task's first row: do the rows that stand there belong to the same micro-batch?"""
    mine = writer.rpartition("/")[0]
    for other, tp in ticket.have:
        if other.rpartition("/")[0] != mine:
            return _differs(
                f"rows of {other} stand in {tp} undecided, and this is {writer}: another query or job began this "
                f"version of {subject(ticket.sink_id)}. Let that one finish it, or {_ANEW}"
            )
    return None


def judge_rerun(
    sink_id: str, kept: Sequence[NamedWrite], begun: Sequence[int], rerun: NamedWrite
) -> Refusal | None:
    """A version that is not above the last decided one was given ``rerun``'s rows: is it proven to be decided?"""
    if not rerun.row_count:
        return None  # nothing that could be lost
    app, last = subject(sink_id), kept[-1]
    known = next((write for write in kept if write.version == rerun.version), None)
    is_stream = rerun.query_id is not None
    others = is_stream and all(write.query_id != rerun.query_id for write in kept)
    is_same_batch = known is not None and (
        not is_stream or (known.query_id, known.batch_id) == (rerun.query_id, rerun.batch_id)
    )
    if (
        known is not None
        and is_same_batch
        and (known.row_count, known.row_hash) == (rerun.row_count, rerun.row_hash)
    ):
        return None
    decided = f"{app} has decided up to version {last.version}"
    if others:
        what = (
            f"{decided}, for {_writer_of_version(last)}, and this is version {rerun.version} of query "
            f"{rerun.query_id}: the checkpoint was lost, or two queries share the txnAppId"
        )
    elif known is not None and not is_same_batch:
        what = (
            f"version {rerun.version} of {app} was decided for {_writer_of_version(known)}, and this is "
            f"micro-batch {rerun.batch_id}: a version is for one micro-batch only"
        )
    elif known is not None:
        what = (
            f"version {rerun.version} of {app} was decided with {known.row_count} rows, and these are "
            + (f"{rerun.row_count}" if known.row_count != rerun.row_count else "other ones")
            + (
                ": an older checkpoint was put back, or the plan gives other rows each time"
                if is_stream
                else ""
            )
        )
    else:
        what = (
            f"{decided}, and version {rerun.version} is not one of the last {KEPT_MAX} that were decided: nothing "
            f"proves that it was written"
        )
    return _differs(f"{what}. {_way_out(last.version, begun, is_stream=is_stream)}")


_ANEW: Final = f"begin anew with {anew(NAMED_PREFIX)}"


def _way_out(last: int, begun: Sequence[int], *, is_stream: bool) -> str:
    if not is_stream:
        return f"If the rows are new, give them a version above {last}; if they were written, there is nothing to do"
    where = f"behind the last row that version {last} has"
    half = f"; but rows of version {begun[0]} stand there undecided, and would come twice" if begun else ""
    return (
        f"Put the newest checkpoint back, if there is a copy. If not, {_ANEW}. With a new txnAppId on the same topic "
        f"the stream has to start exactly {where}: earlier doubles rows, later loses some{half}"
    )


def _differs(evidence: str) -> Refusal:
    return Refusal(Reason.REPLAY_DIFFERS, f"{evidence}. Nothing of it was written now")


def _writer_of_version(write: NamedWrite) -> str:
    return (
        "a batch job" if write.query_id is None else f"micro-batch {write.batch_id} of query {write.query_id}"
    )


def _last_decided(history: SinkHistory) -> int:
    decision = history.decision
    return -1 if decision is None or decision.txn_version is None else decision.txn_version


def _version_of(writer: str) -> int:
    return int(writer.removeprefix(BATCH_WRITER_PREFIX).partition("~")[0])
