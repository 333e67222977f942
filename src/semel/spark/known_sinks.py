"""The sinks that a log remembers: list them, and give one up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from semel.core.sink import run
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Decision, Stored
from semel.core.sink.refusal import NAMED_PREFIX
from semel.errors import SinkError
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.sink_log import SinkLog, find_output, partitions_of, remembered
from semel.spark.takeover import fence_writers, listed, scan
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class SinkReset:
    """What was given up: the decided ends, and rows of an unfinished micro-batch that stay in the output."""

    decided: Decision | None
    undecided: Mapping[tuple[str, TopicPartition], Stored]


def known_sinks(bootstrap: str) -> dict[str, SinkHistory]:
    """Every sink that has written through this log, by its id."""
    sinks = remembered(connect(Connection(bootstrap)))
    return {sink_id: sinks[sink_id] for sink_id in sorted(sinks) if _has_written(sinks[sink_id])}


def _has_written(history: SinkHistory) -> bool:
    """Or is about to. A plan that was refused leaves a FENCE and no more; a batch write without a name, that nobody
    can go on with, no FENCE."""
    return history.fence is not None and (bool(history.writers) or history.decision is not None)


def reset_sink(bootstrap: str, sink_id: str) -> SinkReset:
    """Forget what ``sink_id`` has decided; its next run begins as if it were new. Any driver of it stops.

    Rows that are in the output stay there, also those of an unfinished micro-batch: a query that begins before
    them writes them again, and one that begins behind the decided ends leaves rows out.
    """
    log = SinkLog(Connection(bootstrap), sink_id, is_given_up=True)
    trimmed_to = listed(log.cluster, [log.partition], EARLIEST_TIMESTAMP)[log.partition]
    if sink_id not in known_sinks(bootstrap) and not trimmed_to:
        raise SinkError(f"there is no sink {sink_id!r}: semel sink list shows them all")
    grant, sink_epoch = log.take_over()
    history = log.history()
    outputs = {topic: find_output(log.cluster, topic) for topic in history.outputs}
    found = {topic: output for topic, output in outputs.items() if output is not None}
    partitions = [tp for output in found.values() for tp in partitions_of(output)]
    fence_writers(log.cluster, sink_id, run.fences(history, sink_epoch, partitions))
    ends = listed(log.cluster, partitions, LATEST_TIMESTAMP)
    log_starts = listed(log.cluster, partitions, EARLIEST_TIMESTAMP)
    starts = {
        tp: min(max(start, log_starts[tp]), ends[tp]) for tp, start in run.scan_starts(history, ends).items()
    }
    undecided = scan(log.cluster, history, starts, ends)
    given_up = SinkReset(history.decision, undecided)
    begun = Begin(sink_id, sink_epoch, tuple(found.values()), ends)
    begun = replace(begun, carried=history.carried(begun, run.CARRIED_BYTES_MAX))
    log.append_as_holder(history, begun, grant, sequence=1)
    log.read(history)
    version = -1 if sink_id.startswith(NAMED_PREFIX) else None  # below all of a named batch write
    nothing = Decision(
        sink_id, sink_epoch, "", -1, {}, 0, 0, {}, ends, closed=True, txn_version=version, sequence=2
    )
    log.append_as_holder(history, nothing, grant, sequence=2)
    return given_up
