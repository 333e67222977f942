"""Steps 1 to 5 of the protocol: a driver takes the sink over and begins a run.

In this order, and each durable before the next: raise the sink's epoch, FENCE, read the decision log, fence
every known writer in every output partition, scan the output, BEGIN.

``scanned_behind_the_fences``: the scan ends behind the fences that were written, whatever end a leader tells. A row of
a writer that has been fenced stands in front of its fence, in the log of every leader that has the fence; so a scan
that has met all fences of a partition has seen all rows. An end alone proves nothing on Apache Kafka. A broker that is
cut off from its controller answers the end that it had, which may lie in front of what its successor has committed; and
a leader epoch tells the two apart only for who has heard of the higher one, which a process that starts now has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from semel.client.blocking import Cluster
from semel.client.model import ListedOffset
from semel.core.sink import run
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import OutputTopic, Stored
from semel.core.sink.refusal import is_stage
from semel.core.sink.run import Ticket
from semel.core.sink.writes import judge_version
from semel.errors import (
    BrokerError,
    ConnectionLost,
    ErrorCode,
    NonDeterministicReplay,
    ReplayUnprovable,
    SinkFenced,
)
from semel.record.batch import BatchHeader
from semel.spark.options import SinkOptions
from semel.spark.output_marks import check_outputs
from semel.spark.owners import refuse_foreign_output
from semel.spark.process import this_process
from semel.spark.reading import headers_in
from semel.spark.refusing import allow
from semel.spark.sink_log import (
    APPEND_TIMEOUT_MS,
    DECISION_BYTES_MAX,
    RETRY_PAUSE_MS,
    SinkLog,
    check_compactable,
    check_kept,
    cleanup_policy,
    create_topic,
    find_output,
    history_of,
    partitions_of,
    sweep,
)
from semel.spark.stored_rows import stored_rows
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_PRODUCER_ID, TopicPartition

NEW_TOPIC_PARTITIONS = 1


def begin_run(options: SinkOptions, log: SinkLog, *, only_writers_of: str = "", query: str = "") -> Ticket:
    """A new run; safe at any time between micro-batches, whoever else believes to hold the sink.

    ``only_writers_of`` is the prefix of the writers that may still have undecided rows; a stream's may all.
    """
    if not is_stage(log.sink_id):  # of a flow's stages all outputs were looked at before the first one began
        refuse_foreign_output(log.cluster, options.connection, options.topic, "Nothing was written")
    is_compacted = check_kept(log, DECISION_BYTES_MAX if options.state_plan else 0)
    if is_compacted:  # before the fence, so that who cannot go on disturbs nobody
        check_compactable(log, history_of(log, options.connection))
    grant, sink_epoch = log.take_over(query)
    history = history_of(log, options.connection)
    _stop_if_fenced(history, sink_epoch)
    if options.txn_version is not None:
        # Before BEGIN: rows of another version may stand where the output is at rest for this one's writers.
        allow(judge_version(history, options.txn_version))
    stop_if_not_resumable(options, history, query)
    history = history.of_writers(only_writers_of)
    # A topic that is missing is made by the first task that may write: not every plan will do.
    found = outputs_of(log.cluster, run.output_topics(history, options.topic))
    partitions = [tp for output in found.values() for tp in partitions_of(output)]
    check_outputs(log.cluster, history, found)
    at_rest = _trimmed_at_rest(log.cluster, history, partitions)
    fences = run.fences(history, sink_epoch, partitions)
    before = ends_before_fences(log.cluster, partitions)
    fence_writers(log.cluster, log.sink_id, fences)
    fence_writers(log.cluster, log.sink_id, run.former_identity(history, log.partition))
    ends = {tp: end.offset for tp, end in ends_behind_fences(log.cluster, fences, before).items()}
    starts = run.scan_starts(history, ends) | at_rest
    compacted = {topic for topic in found if "compact" in cleanup_policy(log.cluster, topic)}
    with fence_goes_first(log, history, sink_epoch):
        log_starts = listed(log.cluster, partitions, EARLIEST_TIMESTAMP)
        refusal = run.check_provable(history, found, starts, log_starts, compacted)
        if refusal is not None:
            allow(refusal)
        have = scan(log.cluster, history, starts, ends)
    # Before it was fenced, a task of an older run may have told of its range behind the first look, and have written.
    log.read(history)
    _stop_if_fenced(history, sink_epoch)
    # Who looks for some writers only may not say that nobody's rows are there.
    begun = allow(
        run.begin(
            history,
            sink_epoch,
            found,
            starts,
            have,
            {} if only_writers_of else ends,
            routing=options.routing,
            plan=options.plan,
        )
    )
    log.append_as_holder(history, begun, grant, sequence=1)
    log.read(history)
    _stop_if_fenced(history, sink_epoch)
    ticket = replace(
        run.new_ticket(history, begun, grant.producer_id, 2, options.state_plan),
        journal_partition=log.partition.partition,
        is_journal_compacted=is_compacted,
    )
    return sweep(log, ticket, history_of(log, options.connection), settled_min=1)


def unnamed_run(options: SinkOptions, log: SinkLog) -> Ticket:
    """The run of a batch write that nobody can rerun: there is nothing to fence, to scan or to decide."""
    refuse_foreign_output(log.cluster, options.connection, options.topic, "Nothing was written")
    if options.topic is not None and find_output(log.cluster, options.topic) is None:
        create_topic(log.cluster, options.topic, NEW_TOPIC_PARTITIONS)
    found = outputs_of(log.cluster, [] if options.topic is None else [options.topic])
    starts = listed(
        log.cluster, [tp for output in found.values() for tp in partitions_of(output)], LATEST_TIMESTAMP
    )
    # Nobody has written of it before now: what stands in the decision log is others'.
    history = SinkHistory(log.sink_id, listed(log.cluster, [log.partition], LATEST_TIMESTAMP)[log.partition])
    return Ticket(
        sink_id=log.sink_id,
        producer_id=NO_PRODUCER_ID,
        sink_epoch=0,
        journal_sequence=0,
        journal_end_offset=history.end_offset,
        outputs=found,
        starts=starts,
        writers={},
        scanned_from=starts,
        journal_partition=log.partition.partition,
    )


def fence_writers(
    cluster: Cluster, sink_id: str, fences: Mapping[tuple[int, int], list[TopicPartition]]
) -> None:
    """Raise writers to exactly the given epochs; a higher one in the log is a newer driver's."""
    waiting = {writer: outputs for writer, outputs in fences.items() if outputs}
    clock = this_process().clock
    deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
    while waiting:
        try:
            answers = cluster.write_fence(waiting)
        except ConnectionLost:  # the client asks another broker next who leads
            if clock.elapsed_ms() > deadline_ms:
                raise
            clock.pause(RETRY_PAUSE_MS)
            continue
        again: dict[tuple[int, int], list[TopicPartition]] = {}
        for (producer_id, epoch), outputs in waiting.items():
            for tp in outputs:
                code = ErrorCode.of(answers[producer_id, tp])
                if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                    raise SinkFenced(
                        f"another driver has taken sink {sink_id!r} over: {tp} holds a newer fence"
                    )
                if code.retriable and clock.elapsed_ms() < deadline_ms:
                    again.setdefault((producer_id, epoch), []).append(tp)
                elif code is not ErrorCode.NONE:
                    raise BrokerError(code, f"fencing writers of sink {sink_id!r} in {tp}")
        waiting = again
        if waiting:
            clock.pause(RETRY_PAUSE_MS)


def ends_before_fences(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Fences that are written to ``partitions`` from now on stand at or behind these offsets."""
    return (
        dict.fromkeys(partitions, 0)
        if cluster.tells_committed_only
        else listed(cluster, partitions, LATEST_TIMESTAMP)
    )


def ends_behind_fences(
    cluster: Cluster,
    fences: Mapping[tuple[int, int], list[TopicPartition]],
    before: Mapping[TopicPartition, int],
) -> dict[TopicPartition, ListedOffset]:
    """Where the partitions end, behind all of ``fences`` that were written there just now, and under which leader.

    Nothing of a fenced writer stands behind that, now or later. On semel the one leader that has taken the fences
    tells an end behind them; elsewhere they are looked for.
    """
    latest = dict.fromkeys(before, LATEST_TIMESTAMP)
    ends = cluster.list_offsets(latest, isolation="read_uncommitted") if latest else {}
    if cluster.tells_committed_only:
        return ends
    for tp, from_offset in before.items():
        of_tp = {producer_id: epoch for (producer_id, epoch), outputs in fences.items() if tp in outputs}
        if of_tp:
            last = _last_fence(cluster, tp, of_tp, from_offset)
            end = max(ends[tp].offset, last.last_offset + 1)
            ends[tp] = replace(ends[tp], offset=end, leader_epoch=last.partition_leader_epoch)
    return ends


def _last_fence(
    cluster: Cluster, tp: TopicPartition, waiting: dict[int, int], from_offset: int
) -> BatchHeader:
    """Of these fences (producer id to epoch) the one that is met last, whichever leader shows it."""
    clock = this_process().clock
    deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
    offset = from_offset
    while True:
        end = listed(cluster, [tp], LATEST_TIMESTAMP)[tp]
        for header in headers_in(cluster, tp, offset, end):
            offset = header.last_offset + 1
            epoch = waiting.get(header.producer_id)
            if header.is_control and epoch is not None and header.producer_epoch >= epoch:
                del waiting[header.producer_id]
                if not waiting:
                    return header
        if clock.elapsed_ms() > deadline_ms:
            raise BrokerError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"reading {tp} up to the fences that were written there",
                f"its leader ends at offset {end} without them: it is cut off from its cluster, or lags behind. "
                "Nothing was written; start it again once the cluster is well",
            )
        clock.pause(RETRY_PAUSE_MS)
        cluster.look_elsewhere([tp.topic])


@contextmanager
def fence_goes_first(log: SinkLog, history: SinkHistory, sink_epoch: int) -> Iterator[None]:
    """Whoever is shut out is told that, and not what an output then seems to lack or to have too much.

    What a newer driver has decided may be trimmed, and it goes on to write rows of the same writers.
    """
    try:
        yield
    except (ReplayUnprovable, NonDeterministicReplay):
        log.read(history)
        _stop_if_fenced(history, sink_epoch)
        raise


def _trimmed_at_rest(
    cluster: Cluster, history: SinkHistory, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Outputs whose trim took others' rows alone, and where the scan begins there: what is written from now on stands
    at or behind it. The rows of a query that has come to its end are decided, however far others write and trim."""
    ends = listed(cluster, partitions, LATEST_TIMESTAMP)
    starts, log_starts = run.scan_starts(history, ends), listed(cluster, partitions, EARLIEST_TIMESTAMP)
    trimmed = [tp for tp in partitions if tp.topic in history.outputs and log_starts[tp] > starts[tp]]
    if not trimmed:
        return {}
    known = cluster.describe_producers(trimmed)
    return {
        tp: ends[tp]
        for tp in trimmed
        if run.is_at_rest(history, tp, {each.producer_id: each for each in known[tp]})
    }


def stop_if_not_resumable(options: SinkOptions, history: SinkHistory, query: str) -> None:
    """A flow's stage goes on from decided ends and states that are its own."""
    if options.resumed_epoch is not None:
        assert query, "without a query's name its own FENCEs would be another's"
        overtaken = history.resumed_before(options.resumed_epoch, query)
        if overtaken is not None:
            allow(overtaken)
    refusal = run.judge_state_plan(history, options.state_plan)
    if refusal is not None:
        allow(refusal)


def _stop_if_fenced(history: SinkHistory, sink_epoch: int) -> None:
    fenced = history.fenced_by_other(sink_epoch)
    if fenced is not None:
        allow(fenced)


def outputs_of(cluster: Cluster, topics: list[str]) -> dict[str, OutputTopic]:
    """Those of ``topics`` that exist."""
    found = {topic: find_output(cluster, topic) for topic in topics}
    return {topic: output for topic, output in found.items() if output is not None}


def listed(
    cluster: Cluster, partitions: list[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Offsets of all that is stored, whether committed or not."""
    if not partitions:
        return {}
    answer = cluster.list_offsets(dict.fromkeys(partitions, timestamp_ms), isolation="read_uncommitted")
    return {tp: entry.offset for tp, entry in answer.items()}


def scan(
    cluster: Cluster,
    history: SinkHistory,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[tuple[str, TopicPartition], Stored]:
    """What stands in the output undecided: count and CRCs by writer and partition, over all its epochs."""
    writers = {producer_id: writer for writer, ids in history.writers.items() for producer_id in ids.values()}
    surplus = run.surplus_starts(history)
    have: dict[tuple[str, TopicPartition], Stored] = {}
    for tp, start in starts.items():
        from_offsets = {
            producer_id: surplus.get((writer, tp), start) for producer_id, writer in writers.items()
        }
        for producer_id, rows, offsets in stored_rows(cluster, history.sink_id, tp, from_offsets, ends[tp]):
            place = (writers[producer_id], tp)
            digest = have[place].digest if place in have else NO_ROWS
            have[place] = Stored(
                digest.over(rows.keys, rows.values, rows.headers), int(offsets[len(offsets) - 1].as_py()) + 1
            )
    return have
