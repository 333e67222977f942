"""Bugs planted in the exactly-once sink: each leaves one rule of its protocol out, or breaks it.

Most are the counter-examples that a model checker found to earlier wordings of the protocol; ``S`` and a number
is their name in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from semel.core.sink import run, task
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.epochs import identity_epoch, identity_name, sink_epoch_of
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Decision, Fence, JournalRecord, OutputTopic, WriterClaim
from semel.core.sink.landing import Landing
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.run import Ticket
from semel.core.sink.task import PrefixCheck
from semel.sim.plants.planting import FINISHES, Patches, plant
from semel.sim.sinks.driver import SimulatedDriver
from semel.spark import commit, planning, takeover, task_write
from semel.spark.flight import Flight
from semel.spark.options import SinkOptions
from semel.spark.process import this_process
from semel.spark.sink_log import SinkLog, history_of, partitions_of
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition

ROWS_ONCE, DECIDED, IN_ORDER = "sink_rows_once", "sink_decided_is_stored", "sink_order"
NOT_MIXED, ZOMBIES, STOPS = "sink_attempts_not_mixed", "sink_zombies_shut_out", "sink_stops_are_right"
TWINS = "sink_twins_shut_out"
FLOW_OUTPUT, FLOW_STOPS = "stage_output_is_replay", "flow_stops_are_right"  # a flow has the same sinks
FLOW_STATE = "stage_state_is_replay"

# -- a driver takes over --------------------------------------------------------------------------------


@plant("a driver reads the decisions before its FENCE", "rule 1", ROWS_ONCE, STOPS, DECIDED, FLOW_STATE)
def sink_reads_before_its_fence(patch: Patches) -> None:
    read_before: dict[str, SinkHistory] = {}
    asked: set[str] = set()

    def takes_over(log: SinkLog, query: str = "") -> Any:
        before = SinkHistory(log.sink_id)
        log.read(before)
        taken = original(log, query)
        read_before[this_process().owner] = before
        return taken

    original = patch.set(SinkLog, "take_over", takes_over)

    def as_before(log: SinkLog, connection: Any) -> SinkHistory:
        before = read_before.pop(this_process().owner, None)
        if before is None:  # not the look behind the FENCE
            return history_of(log, connection)
        asked.add(this_process().owner)
        return before

    def reads(log: SinkLog, history: SinkHistory) -> Any:
        if this_process().owner in asked:  # the look behind BEGIN
            asked.remove(this_process().owner)
            return []
        return original_read(log, history)

    def appends(log: SinkLog, history: SinkHistory, record: Any, grant: Any, sequence: int) -> None:
        log.append(record, grant, sequence)

    patch.set(takeover, "history_of", as_before)
    patch.set(SinkLog, "append_as_holder", appends)
    original_read = patch.set(SinkLog, "read", reads)


@plant(
    "a name that the server has forgotten is taken for the one that it was", "here", DECIDED, ROWS_ONCE, STOPS
)
def sink_trusts_a_forgotten_name(patch: Patches) -> None:
    def takes_over(log: SinkLog, query: str = "") -> tuple[ProducerGrant, int]:
        grant = log.cluster.init_producer_id(transactional_id=identity_name(log.sink_id, 0))
        fence = Fence(log.sink_id, sink_epoch_of(0, grant.producer_epoch), this_process().owner, query)
        log.append(fence, grant, sequence=0)
        return grant, fence.sink_epoch

    patch.set(SinkLog, "take_over", takes_over)
    patch.set(Fence, "follows", lambda fence, before: not before or fence.sink_epoch >= before.sink_epoch)
    patch.set(task_write, "landed", lambda code, base_offset, begun_at, written_to: Landing.APPENDED)


@plant("older drivers' writers are not fenced", "step 3", ZOMBIES, ROWS_ONCE, FLOW_OUTPUT)
def sink_writers_not_fenced(patch: Patches) -> None:
    patch.set(takeover, "fence_writers", lambda cluster, sink_id, fences: None)


@plant("two restarts may raise the writers to the same epoch", "S3", ZOMBIES, ROWS_ONCE, STOPS)
def sink_restarts_share_an_epoch(patch: Patches) -> None:
    def of_a_pair(sink_epoch: int) -> int:
        return 4 * (sink_epoch // 2)

    patch.set(run, "writer_epoch", of_a_pair)
    patch.set(task_write, "writer_epoch", of_a_pair)


@plant(
    "a run looks for undecided rows behind the output's end only",
    "step 4",
    ROWS_ONCE,
    FLOW_OUTPUT,
    FLOW_STOPS,
)
def sink_scans_nothing(patch: Patches) -> None:
    def from_the_end(history: SinkHistory, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict(ends)

    patch.set(run, "scan_starts", from_the_end)


@plant(
    "a run whose output was trimmed looks for undecided rows from the log's start on",
    "step 4",
    ROWS_ONCE,
    STOPS,
)
def sink_scans_what_is_left(patch: Patches) -> None:
    def what_is_left(cluster: Any, history: SinkHistory, starts: Any, ends: Any) -> Any:
        log_starts = takeover.listed(cluster, list(starts), EARLIEST_TIMESTAMP)
        return original(cluster, history, {tp: max(starts[tp], log_starts[tp]) for tp in starts}, ends)

    patch.set(run, "check_provable", lambda *_: None)
    original = patch.set(takeover, "scan", what_is_left)


@plant("a trim of decided rows stops the sink", "step 4", STOPS)
def sink_needs_the_whole_output(patch: Patches) -> None:
    def from_the_first(history: SinkHistory, found: Any, starts: Any, *rest: Any) -> Any:
        return original(history, found, dict.fromkeys(starts, 0), *rest)

    original = patch.set(run, "check_provable", from_the_first)


@plant(
    "BEGIN is appended behind the run's first rows", "step 5", ROWS_ONCE, FLOW_OUTPUT, FLOW_STOPS, FINISHES
)
def sink_begins_behind_the_first_row(patch: Patches) -> None:
    due: dict[tuple[str, int], Begin] = {}

    def appends(
        log: SinkLog, history: SinkHistory, record: JournalRecord, grant: ProducerGrant, sequence: int
    ) -> None:
        key = (log.sink_id, record.sink_epoch)
        if isinstance(record, Begin):
            due[key] = record
            return
        if isinstance(record, Decision) and key in due:
            log.append(due.pop(key), grant, sequence - 1)
        original(log, history, record, grant, sequence)

    def as_if_begun(history: SinkHistory, started: Begin, *rest: Any, **more: Any) -> Ticket:
        history.apply(started)
        ticket: Ticket = new_ticket(history, started, *rest, **more)
        return ticket

    original = patch.set(SinkLog, "append_as_holder", appends)
    new_ticket = patch.set(run, "new_ticket", as_if_begun)


@plant("nobody looks for a newer FENCE", "rule 3", ROWS_ONCE, ZOMBIES, STOPS)
def sink_ignores_newer_fences(patch: Patches) -> None:
    patch.set(SinkHistory, "fenced_by_other", lambda history, sink_epoch: None)


# -- a task ---------------------------------------------------------------------------------------------


@plant("a micro-batch is recognised by its number, not by its ranges", "rule 2", DECIDED, ROWS_ONCE)
def sink_skips_by_batch_id(patch: Patches) -> None:
    def by_id(
        source_range: SourceRange, query_id: str, end: int | None, decided_query_id: str | None, *_: Any
    ) -> Any:
        is_old = end is not None and source_range.batch_from < end and query_id == decided_query_id
        return Verdict.SKIP if is_old else Verdict.WRITE

    patch.set(task, "judge_range", by_id)


@plant("a source's offsets are compared, and not its topic's ids", "here", DECIDED, ROWS_ONCE)
def sink_source_known_by_offsets(patch: Patches) -> None:
    patch.set(planning, "ids_agree", lambda *_: True)


@plant("undecided rows under another split are not looked for", "S6", ROWS_ONCE, STOPS)
def sink_splits_not_compared(patch: Patches) -> None:
    def without_siblings(ticket: Ticket, source_range: SourceRange, query_id: str) -> Any:
        return original(replace(ticket, have={}), source_range, query_id)

    original = patch.set(task_write, "may_write", without_siblings)


@plant("undecided rows of another range, in as many splits, are not looked for", "here", ROWS_ONCE, STOPS)
def sink_cuts_not_compared(patch: Patches) -> None:
    def whatever_the_cut(ticket: Ticket, source_range: SourceRange, query_id: str) -> Any:
        return original(replace(ticket, cuts=()), source_range, query_id)

    original = patch.set(task_write, "may_write", whatever_the_cut)


@plant("the last WRITER of a name wins, not the first", "S2", ROWS_ONCE, ZOMBIES, STOPS, FLOW_STOPS)
def sink_last_writer_wins(patch: Patches) -> None:
    def apply(history: SinkHistory, record: JournalRecord) -> None:
        if isinstance(record, WriterClaim) and record.sink_id == history.sink_id:
            history.writers.pop(record.writer, None)
        original(history, record)

    original = patch.set(SinkHistory, "apply", apply)


@plant(
    "rows that are stored already are counted, and not compared",
    "step 6",
    NOT_MIXED,
    DECIDED,
    ROWS_ONCE,
    STOPS,
)
def sink_prefixes_not_compared(patch: Patches) -> None:
    def counts(check: PrefixCheck, tp: TopicPartition, keys: Any, values: Any, headers: Any) -> int:
        expected, seen = check.expected.get(tp, NO_ROWS), check.seen.get(tp, NO_ROWS)
        stored = min(expected.count - seen.count, len(values))
        check.seen[tp] = replace(seen, count=seen.count + max(0, stored))
        return max(0, stored)

    patch.set(PrefixCheck, "feed", counts)


@plant("a new query may not leave stored rows to its next micro-batch", "S8", STOPS, FLOW_STOPS)
def sink_refuses_a_surplus(patch: Patches) -> None:
    patch.set(task_write, "surplus_allowed", lambda *_: False)


@plant("a task reports before its rows are acknowledged", "step 6", DECIDED, ROWS_ONCE, NOT_MIXED, STOPS)
def sink_reports_before_the_answers(patch: Patches) -> None:
    patch.set(Flight, "land", lambda flight: None)


@plant(
    "a row too many is taken to be stored already",
    "paimon#9667",
    DECIDED,
    ROWS_ONCE,
    STOPS,
    FLOW_OUTPUT,
)
def sink_drops_a_row_too_many(patch: Patches) -> None:
    def feeds(check: PrefixCheck, tp: TopicPartition, keys: Any, values: Any, headers: Any) -> Any:
        stored = original(check, tp, keys, values, headers)
        return min(stored + 1, len(values)) if isinstance(stored, int) and stored else stored

    original = patch.set(PrefixCheck, "feed", feeds)


@plant("the rows of a piece are turned round", "here", IN_ORDER, STOPS)
def sink_turns_rows_round(patch: Patches) -> None:
    def spreads(*asked: Any) -> Any:
        for number, rows in original(*asked):
            yield number, rows.take(list(reversed(range(len(rows)))))

    original = patch.set(task_write, "spread", spreads)


@plant("a micro-batch that is decided is written again", "paimon#9666", ROWS_ONCE, DECIDED, STOPS)
def sink_writes_what_is_decided(patch: Patches) -> None:
    def always(*_: Any) -> Verdict:
        return Verdict.WRITE

    patch.set(task, "judge_range", always)


# -- the decision ---------------------------------------------------------------------------------------


@plant("the commit takes an epoch of its own", "rule 5", STOPS, FINISHES)
def sink_commit_takes_an_epoch(patch: Patches) -> None:
    def decides(options: SinkOptions, ticket: Ticket, *rest: Any, **more: Any) -> Any:
        grant, sink_epoch = SinkLog(options.connection, ticket.sink_id).take_over()
        mine = replace(ticket, producer_id=grant.producer_id, sink_epoch=sink_epoch, journal_sequence=1)
        return original(options, mine, *rest, **more)

    original = patch.set(commit, "decide_batch", decides)


@plant("a decision is made without ending the writers' twins", "S9", TWINS, NOT_MIXED)
def sink_twins_not_ended(patch: Patches) -> None:
    patch.set(commit, "_settle_twins", lambda log, ticket, history, report: report)


@plant(
    "a decision forgets the writers that had no rows",
    "S5",
    STOPS,
    ROWS_ONCE,
    DECIDED,
    FLOW_STOPS,
)
def sink_forgets_idle_writers(patch: Patches) -> None:
    def decides(*rest: Any, **more: Any) -> Any:
        return original(*rest, **{**more, "carry": False})

    original = patch.set(commit, "decide", decides)


@plant("abort() gives up the rows of its micro-batch", "rule 6", ROWS_ONCE, DECIDED, STOPS)
def sink_abort_gives_rows_up(patch: Patches) -> None:
    def gives_up(options: SinkOptions, ticket: Ticket) -> None:
        log = SinkLog(options.connection, ticket.sink_id)
        before = history_of(log, options.connection)
        outputs: list[OutputTopic] = list(before.outputs.values())
        ends = takeover.listed(
            log.cluster, [tp for output in outputs for tp in partitions_of(output)], LATEST_TIMESTAMP
        )
        nothing = Decision(ticket.sink_id, ticket.sink_epoch, "", 0, {}, 0, 0, {}, ends)
        given_up = replace(
            before.decision or nothing,
            sink_epoch=ticket.sink_epoch,
            output_ends=ends,
            closed=True,
            sequence=ticket.journal_sequence,
        )
        grant = ProducerGrant(ticket.producer_id, identity_epoch(ticket.sink_epoch))
        log.append(given_up, grant, ticket.journal_sequence)

    def aborts(driver: SimulatedDriver, ticket: Ticket) -> None:
        driver._call(driver._committer, lambda: gives_up(driver.options, ticket))

    patch.set(SimulatedDriver, "_abort", aborts)
