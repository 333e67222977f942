"""How a stage of a flow begins, which trusts no checkpoint: looked at, fenced, and told where it goes on.

In this order, for all stages of a flow: :func:`check_before_fencing`, so that a flow which may not start leaves alone
what runs; then :func:`resume`, whose FENCE lets no older driver decide any more before the ends are read. The first
run of who writes is told of that FENCE (``SinkOptions.resumed_epoch``) and stops where another's came behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.sink import run
from semel.core.sink.committed_state import other_plan
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Stored
from semel.core.sink.ranges import writers_of
from semel.spark.options import Connection, SinkOptions
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, find_output, partitions_of
from semel.spark.takeover import listed, outputs_of, scan
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where a stage goes on, as of the FENCE of ``sink_epoch``: see :meth:`SinkHistory.resume_ends`."""

    ends: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    sink_epoch: int  # SinkOptions.resumed_epoch, for who writes
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)  # of ``ends``, where known


def check_before_fencing(options: SinkOptions) -> None:
    """Stop a changed stage that would be refused once it had fenced the one that runs.

    Nobody is fenced yet, so what is undecided now may be decided in a moment, and the other way round. A new run looks
    again; this is to disturb nobody in vain.
    """
    assert options.sink_id is not None
    log = SinkLog(options.connection, options.sink_id)
    history = log.history()
    refusal = run.judge_state_plan(history, options.state_plan)
    if refusal is not None:
        allow(refusal)
    if history.begin is not None and history.begin.plan != options.plan and _undecided(log, history):
        allow(other_plan(log.sink_id, history.begin.plan, options.plan, may_run=True))


def resume(connection: Connection, sink_id: str) -> Resumption:
    """Fence the sink of a stage, and read where it goes on. Nowhere for one that has never written.

    Where only a CUT says where a source partition began, of which no row came to be stored, nothing binds it: if
    offsets behind that are gone by now, it begins at the start of what is there.
    """
    log = SinkLog(connection, sink_id)
    _, sink_epoch = log.take_over()
    history = log.history()
    ends, topic_ids = history.resume_ends()
    decided = frozenset() if history.decision is None else history.decision.source_ends.keys()
    gone = _trimmed(log, {tp: end for tp, end in ends.items() if tp not in decided})
    if gone:
        undecided = _undecided(log, history)
        unbound = {tp for tp in gone if not any(writer.startswith(writers_of(tp)) for writer, _ in undecided)}
        ends = {tp: end for tp, end in ends.items() if tp not in unbound}
    return Resumption(ends, topic_ids, sink_epoch, history.resume_epochs())


def resume_ends(connection: Connection, sink_id: str) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """The ends alone, and the ids of the topics that these are offsets of."""
    resumption = resume(connection, sink_id)
    return resumption.ends, resumption.topic_ids


def has_undecided(connection: Connection, sink_id: str) -> bool:
    """Whether rows of the sink stand in its outputs that no DECISION covers yet."""
    log = SinkLog(connection, sink_id)
    return bool(_undecided(log, log.history()))


def _trimmed(log: SinkLog, ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Those of ``ends`` that the log begins behind, by now."""
    there = {topic for topic in {tp.topic for tp in ends} if find_output(log.cluster, topic) is not None}
    log_starts = listed(log.cluster, [tp for tp in ends if tp.topic in there], EARLIEST_TIMESTAMP)
    return {tp for tp, log_start in log_starts.items() if log_start > ends[tp]}


def _undecided(log: SinkLog, history: SinkHistory) -> dict[tuple[str, TopicPartition], Stored]:
    """Rows that stand undecided in what is there of the outputs; whether that is all of it, a new run judges."""
    found = outputs_of(log.cluster, run.output_topics(history, None))
    partitions = [tp for output in found.values() for tp in partitions_of(output)]
    ends = listed(log.cluster, partitions, LATEST_TIMESTAMP)
    log_starts = listed(log.cluster, partitions, EARLIEST_TIMESTAMP)
    starts = {
        tp: min(max(start, log_starts[tp]), ends[tp]) for tp, start in run.scan_starts(history, ends).items()
    }
    return scan(log.cluster, history, starts, ends)
