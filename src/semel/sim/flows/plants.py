"""Bugs planted in flows: each leaves one rule out by which a stage equals a replay of its recorded inputs.

Most are the counter-examples that the model of flows (``python -m tools.model``) finds where the rule is left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from semel.core.flow import merge_plan
from semel.core.flow.changelog import Meta, Restore
from semel.core.flow.merge import MergeHistory, PlacedEntry
from semel.core.flow.merge_records import Entry, Head
from semel.core.flow.state import State
from semel.core.sink import decide
from semel.core.sink.task import Attempted
from semel.flow import merge_log, rows_out, stage_state, store, task
from semel.flow.lmdb_base import LmdbBase, apply
from semel.flow.merge_log import MergeLog
from semel.flow.rows_in import EntryRows
from semel.flow.stage_ranges import MergedRanges, StageTask
from semel.flow.stage_state import TaskState
from semel.flow.store import Store, Tag
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.flows.driver import WatchedState
from semel.sim.plants.planting import FINISHES, Patches, plant
from semel.spark import output, resuming
from semel.spark.process import connect, this_process
from semel.spark.resuming import Resumption
from semel.spark.sink_log import SinkLog, produce_until_answered
from semel.types import LATEST_TIMESTAMP

STATE, OUTPUT, COUNTED = "stage_state_is_replay", "stage_output_is_replay", "each_input_counted_once"
RECORDED, STARTS, STOPPED = (
    "recorded_order_never_changes",
    "no_task_starts_from_undecided_state",
    "flow_stops_are_right",
)

flow_plant = partial(plant, may_show=seed_has_flows)

# -- the merge log --------------------------------------------------------------------------------------


@flow_plant(
    "an entry counts though its ranges do not begin where the entries before it end",
    "entries follow on",
    RECORDED,
    COUNTED,
    OUTPUT,
    STATE,
    STARTS,
    STOPPED,
)
def flow_entries_overlap(patch: Patches) -> None:
    patch.set(MergeHistory, "_goes_on", lambda history, entry: entry.epoch == history.epoch)


@flow_plant(
    "entries of a planner that was overtaken count",
    "entries name the newest head",
    RECORDED,
    COUNTED,
    OUTPUT,
    STATE,
    STARTS,
)
def flow_entries_of_any_head(patch: Patches) -> None:
    def goes_on(history: MergeHistory, entry: Entry) -> bool:
        of_newest = replace(entry, epoch=history.epoch)
        counts: bool = original(history, of_newest)
        return counts

    original = patch.set(MergeHistory, "_goes_on", goes_on)


@flow_plant(
    "a planner believes the answer, and does not read back what stands in the log",
    "planners read back",
    RECORDED,
    STATE,
    STOPPED,
)
def flow_planners_do_not_read_back(patch: Patches) -> None:
    def appends(log: MergeLog, records: Mapping[int, Any]) -> None:
        batches = {log._tp(number): log._batch(of_partition) for number, of_partition in records.items()}
        for tp, answer in produce_until_answered(log.cluster, batches).items():
            placed = list(enumerate(records[tp.partition], answer.base_offset))
            log._partitions[tp.partition].take(placed, answer.base_offset + len(placed))

    patch.set(MergeLog, "_append", appends)


@flow_plant(
    "who takes the merge log over begins the inputs anew",
    "heads start at the known ends",
    COUNTED,
    RECORDED,
    OUTPUT,
    STOPPED,
)
def flow_heads_begin_anew(patch: Patches) -> None:
    def heads(history: MergeHistory, epoch: int, owner: str, inputs: Any, log_starts: Any) -> Any:
        head = original(history, epoch, owner, inputs, log_starts)
        return (
            replace(head, starts={each.key: log_starts[each.key] for each in inputs})
            if isinstance(head, Head)
            else head
        )

    def applies(history: MergeHistory, offset: int, record: Any) -> bool:
        counts: bool = original_apply(history, offset, record)
        if counts and isinstance(record, Head):
            history.ends |= record.starts
        return counts

    original = patch.set(merge_log, "next_head", heads)
    original_apply = patch.set(MergeHistory, "apply", applies)
    assert merge_plan.next_head is original


@flow_plant(
    "a restart passes over entries that are recorded and not decided",
    "recorded entries first",
    STOPPED,
    COUNTED,
)
def flow_recorded_entries_passed_over(patch: Patches) -> None:
    def initial(ranges: MergedRanges) -> Any:
        begun = original(ranges)
        for number, part in ranges._log._partitions.items():
            begun[ranges._stage.merge_topic][str(number)] = part.history.planned_end
        return begun

    original = patch.set(MergedRanges, "initial", initial)


@flow_plant("a micro-batch has entries of one partition only", "every partition moves", STOPPED, FINISHES)
def flow_partitions_take_turns(patch: Patches) -> None:
    def plans(log: MergeLog, positions: Mapping[int, int], **more: Any) -> dict[int, int]:
        ends: dict[int, int] = original(log, positions, **more)
        moving = [number for number, end in ends.items() if end != positions.get(number, end)]
        held = moving[1:] if this_process().clock.elapsed_ms() % 2 else moving[:-1]
        return ends | {number: positions[number] for number in held}

    original = patch.set(MergeLog, "plan", plans)


@flow_plant(
    "the order of an entry's inputs is another one in every attempt",
    "order within an entry",
    OUTPUT,
    STATE,
    STARTS,
    STOPPED,
)
def flow_inputs_in_any_order(patch: Patches) -> None:
    def of(rows: EntryRows, placed: PlacedEntry, entry: Any) -> Any:
        turned = tuple(reversed(placed.entry.ranges))
        is_odd = zlib.crc32(this_process().owner.encode()) % 2
        return original(
            rows, replace(placed, entry=replace(placed.entry, ranges=turned)) if is_odd else placed, entry
        )

    original = patch.set(EntryRows, "of", of)


@flow_plant(
    "a fold is called once for each micro-batch, not for each entry",
    "emission per entry",
    OUTPUT,
    RECORDED,
    STOPPED,
)
def flow_folds_micro_batches(patch: Patches) -> None:
    def tasks(ranges: MergedRanges, start: Any, end: Any) -> list[StageTask]:
        planned: list[StageTask] = original(ranges, start, end)
        return [replace(each, entries=_as_one(each.entries or ())) for each in planned]

    original = patch.set(MergedRanges, "tasks", tasks)


@flow_plant(
    "a tick is as long as the attempt's own clock has counted, and not as is recorded",
    "ticks are recorded",
    OUTPUT,
    STATE,
    STARTS,
    STOPPED,
)
def flow_ticks_by_the_clock(patch: Patches) -> None:
    def begins(offset: int = -1, tick_ms: int | None = None, *rest: Any, **more: Any) -> Any:
        by_the_clock = None if tick_ms is None else this_process().clock.elapsed_ms()
        return original(offset, by_the_clock, *rest, **more)

    original = patch.set(task, "Entry", begins)


def _as_one(entries: tuple[PlacedEntry, ...]) -> tuple[PlacedEntry, ...]:
    if not entries:
        return ()
    ranges = tuple(each for placed in entries for each in placed.entry.ranges)
    return (replace(entries[-1], entry=replace(entries[-1].entry, ranges=ranges)),)


# -- a driver begins ------------------------------------------------------------------------------------


@flow_plant(
    "a stage reads where it goes on before its FENCE", "fence, then read", STOPPED, OUTPUT, STATE, FINISHES
)
def flow_reads_before_its_fence(patch: Patches) -> None:
    def resumes(connection: Any, sink_id: str) -> Resumption:
        log = SinkLog(connection, sink_id)
        before = log.history()
        _, sink_epoch = log.take_over()
        return Resumption(*before.resume_ends(), sink_epoch)

    patch.set(resuming, "resume", resumes)


@flow_plant("a first run is not held against the FENCE of its source", "one fence", STOPPED)
def flow_runs_behind_any_fence(patch: Patches) -> None:
    def options(*asked: Any, **more: Any) -> Any:
        return replace(original(*asked, **more), resumed_epoch=None)

    original = patch.set(task, "sink_options", options)


# -- state ----------------------------------------------------------------------------------------------


@flow_plant(
    "what an attempt has changed stays in the store, decided or not",
    "overlays apart",
    STARTS,
    STATE,
    OUTPUT,
    STOPPED,
)
def flow_overlays_in_the_store(patch: Patches) -> None:
    def keeps(kept: Store, state: State, decided_end: int) -> None:
        if kept._base is None or kept._tag is None or state.meta.is_inline:
            return
        kept._base.close()
        overlay = state.overlay()
        tag = replace_tag(kept._tag, state.meta)
        with kept._env.begin(write=True) as txn:
            apply(txn, kept._states, list(overlay), list(overlay.values()))
            txn.put(store._TAG, msgspec.msgpack.encode(tag))
        kept._base = LmdbBase(kept._env.begin(), kept._states, state.meta)

    def replace_tag(tag: Tag, meta: Meta) -> Tag:
        return Tag.of(tag.decided_end, tag.changelog_to, meta)

    def as_its_end_says(kept: Store, decided_end: int, committed: Any, *rest: Any) -> Any:
        with kept._env.begin() as txn:
            tag = kept._read_tag(txn)
        if tag is not None and tag.decided_end == decided_end:
            committed = replace(committed, digest=tag.meta.digest.mixed())
        return original(kept, decided_end, committed, *rest)

    patch.set(Store, "keep", keeps)
    original = patch.set(Store, "_bring_to", as_its_end_says)


@flow_plant(
    "a store of any end is taken for the decided one",
    "newer tags are rebuilt",
    STARTS,
    STATE,
    OUTPUT,
    STOPPED,
)
def flow_stores_without_tags(patch: Patches) -> None:
    def whatever_is_there(kept: Store, decided_end: int, committed: Any, *rest: Any) -> Any:
        with kept._env.begin() as txn:
            tag = kept._read_tag(txn)
        if tag is not None:
            committed = replace(committed, digest=tag.meta.digest.mixed())
        return original(kept, decided_end, committed, *rest)

    original = patch.set(Store, "_bring_to", whatever_is_there)


@flow_plant(
    "a decision forgets the states of writers that had no rows",
    "idle states are carried",
    STATE,
    STOPPED,
    STARTS,
)
def flow_idle_states_forgotten(patch: Patches) -> None:
    def without_idle(previous: Any, *rest: Any) -> Any:
        return original({}, *rest)

    original = patch.set(decide, "next_states", without_idle)


@flow_plant(
    "a restore takes what is not decided as well", "decided messages only", STARTS, STATE, OUTPUT, STOPPED
)
def flow_restores_what_is_undecided(patch: Patches) -> None:
    def to_the_end(state: TaskState, first: int, end: int) -> Iterator[Any]:
        cluster = connect(state._connection)
        log_end = cluster.list_offsets({state._changelog: LATEST_TIMESTAMP}, isolation="read_uncommitted")
        return iter(original(state, first, log_end[state._changelog].offset))

    def finishes(fold: Restore, digest: int) -> Any:
        return replace(fold.meta, digest=fold._digest)

    def feeds(fold: Restore, keys: Any, values: Any) -> Any:
        fold.decided_end = 2**62
        return original_feed(fold, keys, values)

    original = patch.set(TaskState, "_read_changelog", to_the_end)
    patch.set(Restore, "finish", finishes)
    original_feed = patch.set(Restore, "feed", feeds)


@flow_plant(
    "a store passes over messages that were not decided when it read",
    "read up to the first undecided",
    STARTS,
    OUTPUT,
    STATE,
    COUNTED,
    STOPPED,
)
def flow_stores_skip_messages(patch: Patches) -> None:
    def further(decided_end: int, changelog_to: int, meta: Meta) -> Tag:
        made: Tag = original.__func__(Tag, decided_end, changelog_to + 1, meta)
        return made

    original = patch.set(Tag, "of", staticmethod(further))
    patch.set(Restore, "finish", lambda fold, digest: replace(fold.meta, digest=fold._digest))


@flow_plant("the changelog is trimmed up to its decided end", "trim below decided snapshots", STATE, STOPPED)
def flow_trims_decided_state(patch: Patches) -> None:
    def all_that_is_decided(states: Mapping[int, Any], ends: Mapping[int, int]) -> dict[int, int]:
        return {number: ends[number] for number, state in states.items() if state.inline is None}

    patch.set(stage_state, "trim_offsets", all_that_is_decided)


@flow_plant(
    "a snapshot is named by where the changelog ends", "snapshots are named from below", STATE, STOPPED
)
def flow_snapshots_named_at_the_end(patch: Patches) -> None:
    def loads(kept: WatchedState) -> State:
        state: State = original(kept)
        cluster = connect(kept._connection)
        ends = cluster.list_offsets({kept._changelog: LATEST_TIMESTAMP}, isolation="read_uncommitted")
        state._changelog_end = ends[kept._changelog].offset
        return state

    original = patch.set(TaskState, "load", loads)


@flow_plant(
    "where a state lies is settled at a micro-batch's last entry", "mode per entry", STATE, STARTS, STOPPED
)
def flow_state_moves_by_micro_batch(patch: Patches) -> None:
    def changes(attempt: Any, placed: PlacedEntry, partition: int) -> Iterator[Any]:
        state = attempt._state
        bound = state._inline_bytes_max
        if placed is not attempt.task.entries[-1]:
            state._inline_bytes_max = 2**40
        yield from original(attempt, placed, partition)
        state._inline_bytes_max = bound

    original = patch.set(task._Stateful, "_changes", changes)


# -- rows that no step takes, and where rows lie --------------------------------------------------------


@flow_plant("a step that fails leaves all of its micro-batch undecided", "here", STOPPED)
def flow_failures_decide_nothing(patch: Patches) -> None:
    def fails(*asked: Any, **more: Any) -> Attempted:
        attempted: Attempted = original(*asked, **more)
        if attempted.failure is not None:
            raise attempted.failure
        return attempted

    original = patch.set(task, "run_attempt", fails)


@flow_plant(
    "a step that fails is decided up to its entry, and not up to the entry before", "here", STATE, STOPPED
)
def flow_failures_end_at_their_entry(patch: Patches) -> None:
    def fails(stage: Any, options: Any, ticket: Any, given: StageTask, **more: Any) -> Attempted:
        attempted: Attempted = original(stage, options, ticket, given, **more)
        if attempted.failure is None or given.entries is None:
            return attempted
        reported = attempted.report.source_range
        assert reported is not None
        failed_at = min(placed.offset for placed in given.entries if placed.offset >= reported.batch_end)
        report = replace(attempted.report, source_range=replace(reported, batch_end=failed_at))
        return replace(attempted, report=report)

    original = patch.set(task, "run_attempt", fails)


@flow_plant("bad rows are laid aside by their kind, and not as they came", "here", OUTPUT, STOPPED)
def flow_bad_rows_by_kind(patch: Patches) -> None:
    patch.set(rows_out, "_in_order", iter)


@flow_plant(
    "rows are keyed by another partitioner than the one that their readers prove",
    "here",
    STOPPED,
    OUTPUT,
    FINISHES,
)
def flow_keyed_by_crc32(patch: Patches) -> None:
    def by_crc32(keys: pa.Array, partition_count: int) -> Any:
        return np.array(
            [zlib.crc32(key or b"") % partition_count for key in keys.to_pylist()], dtype=np.int64
        )

    patch.set(output, "partition_rows", by_crc32)
