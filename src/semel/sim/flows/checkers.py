"""The invariants of flows: by what lies in their topics and was given to their tasks, and by how their drivers end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from semel.core.sink.journal import Decision
from semel.core.sink.ranges import writers_of
from semel.errors import (
    BrokerError,
    ConnectionLost,
    ErrorCode,
    ReplayDiffers,
    SemelError,
    SinkFenced,
    StepFailed,
    StorageError,
)
from semel.flow.slots import SLOTS_MAX
from semel.sim.checkers.checker import Checker
from semel.sim.flows.driver import StageDriver
from semel.sim.flows.recorded import RecordedEntry, StoredRecord
from semel.sim.flows.replay import Made, Replayed, read_row
from semel.sim.flows.steps import count_in, counts_of
from semel.sim.flows.story import StageStory
from semel.sim.flows.view import FlowView, StageView
from semel.sim.flows.watcher import FlowWatcher
from semel.types import TopicPartition


class RecordedOrderNeverChanges(Checker, FlowWatcher):
    """``recorded_order_never_changes``: an entry of a merge log that counts goes on to count, with the same ranges, and
    none comes to stand before it; and what a task is given of a range is what stands recorded there, all of it.

    Which entries count is worked out by the checkers' own reading of the log.
    """

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, list[RecordedEntry]] = {}

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                if stage.stage.is_stateful:
                    for source in stage.story.sources:
                        self._judge(stage, source)
                    self._judge_tasks(stage)
                stage.story.planned.clear()

    def _judge(self, stage: StageView, source: TopicPartition) -> None:
        now, before = stage.entries(source.partition), self._seen.get(source, [])
        for place, entry in enumerate(before):
            if place >= len(now) or now[place] != entry:
                found = now[place] if place < len(now) else "none"
                raise self.violated(f"entry {place} of {source} was {entry}, and is {found}")
        self._seen[source] = now

    def _judge_tasks(self, stage: StageView) -> None:
        for task in stage.story.planned:
            source_range, given = task.source_range, task.entries or ()
            recorded = {
                entry.offset: [(each.tp.topic, each.from_offset, each.end_offset) for each in entry.ranges]
                for entry in stage.entries(source_range.source.partition)
                if source_range.batch_from <= entry.offset < source_range.batch_end
            }
            found = {
                placed.offset: [
                    (each.topic, each.from_offset, each.end_offset) for each in placed.entry.ranges
                ]
                for placed in given
            }
            if found != recorded:
                raise self.violated(
                    f"a task of {source_range.source} from {source_range.batch_from} to {source_range.batch_end} was "
                    f"given {found}, and recorded is {recorded}"
                )


class EachInputCountedOnce(Checker, FlowWatcher):
    """``each_input_counted_once``: the entries of a merge log have every offset of each input once, from its first one
    on and without a gap; the decided state counts each of their rows once; and a stage that has finished has decided
    all.

    Judged by the rows in the inputs and the numbers in the state: no replay is asked.
    """

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                for source in stage.story.sources:
                    if stage.stage.is_stateful:
                        self._judge_entries(stage, source)
                    if stage.story.is_finished and stage.decided_end(source) < stage.end_to_decide(source):
                        raise self.violated(
                            f"{stage.story.sink_id} has finished, and {source} is decided to "
                            f"{stage.decided_end(source)} of {stage.end_to_decide(source)}"
                        )

    def _judge_entries(self, stage: StageView, source: TopicPartition) -> None:
        ends: dict[TopicPartition, int] = {}
        decided: dict[TopicPartition, int] = {}
        decided_end = stage.decided_end(source)
        for entry in stage.entries(source.partition):
            for each in entry.ranges:
                if each.from_offset != ends.get(each.tp, 0):
                    raise self.violated(
                        f"the entry at {source}@{entry.offset} has {each}, and those before end at "
                        f"{ends.get(each.tp, 0)}"
                    )
                ends[each.tp] = each.end_offset
                if each.end_offset > stage.flow.end(each.tp):
                    raise self.violated(
                        f"the entry at {source}@{entry.offset} has {each}, behind the log's end"
                    )
            if entry.offset < decided_end:
                decided = dict(ends)
        if stage.story.is_finished:
            for tp in stage.inputs(source.partition):
                if ends.get(tp, 0) < stage.flow.end(tp):
                    raise self.violated(f"{source} has {tp} up to {ends.get(tp, 0)} of {stage.flow.end(tp)}")
        if stage.decisions and stage.flow.story.doing.is_plain:
            self._judge_counts(stage, source, decided)

    def _judge_counts(
        self, stage: StageView, source: TopicPartition, decided: dict[TopicPartition, int]
    ) -> None:
        rows_of = Counter(
            record.key or b""
            for tp, end in decided.items()
            for record in stage.flow.records(tp)
            if record.record_offset < end
        )
        state = stage.newest_state(source)
        if state is None or isinstance(state, str):  # that there is none is for others to say
            return
        found = {key: count_in(each) for key, each in state.items()}
        wanted = counts_of(stage.flow.story.doing, rows_of)
        if found != wanted:
            raise self.violated(f"{source} counts {found} rows of its keys, and its inputs have {wanted}")


class NoTaskStartsFromUndecidedState(Checker, FlowWatcher):
    """``no_task_starts_from_undecided_state``: the state that an attempt of a task begins with is that of an end which
    was decided, exactly: what a replay of the entries below it leaves.

    Whatever lies on its machine, and whoever else works there.
    """

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                self._judge(stage)

    def _judge(self, stage: StageView) -> None:
        loaded = list(stage.story.loaded)
        stage.story.loaded.clear()
        for each in loaded:
            source = TopicPartition(stage.stage.merge_topic, each.partition)
            ends = {0} | {decision.source_ends.get(source, 0) for decision in stage.decisions}
            if each.decided_end not in ends:
                raise self.violated(
                    f"{each.by} began behind {source}@{each.decided_end}, which was never decided: {sorted(ends)}"
                )
            found = stage.read_state(each.rows)
            wanted = stage.replayed(source).states.get(each.decided_end)
            if found != wanted:
                raise self.violated(
                    f"{each.by} began behind {source}@{each.decided_end} with {found}; a replay gives {wanted}"
                )


class StageStateIsReplay(Checker, FlowWatcher):
    """``stage_state_is_replay``: the state that a DECISION has, or that the changelog gives for it, is what a replay of
    the entries below the decided end leaves.

    Judged for each decision where the state rides in it, and for the newest one where it is in the changelog.
    """

    def __init__(self) -> None:
        self._judged: dict[str, int] = {}  # by sink: how many decisions

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                if stage.stage.has_state:
                    for decision in stage.decisions[self._judged.get(stage.story.sink_id, 0) :]:
                        self._judge(stage, decision, is_newest=decision is stage.decisions[-1])
                    self._judged[stage.story.sink_id] = len(stage.decisions)

    def _judge(self, stage: StageView, decision: Decision, *, is_newest: bool) -> None:
        for source, end in decision.source_ends.items():
            wanted = stage.replayed(source).states.get(end)
            if wanted is None:
                raise self.violated(f"{source} is decided to {end}, where no entry ends")
            states = [
                state for writer, state in decision.states.items() if writer.startswith(writers_of(source))
            ]
            if len(states) != 1:
                if end:
                    raise self.violated(f"{source} is decided to {end} with {len(states)} states")
                continue
            if states[0].inline is None and not is_newest:
                continue
            found = stage.decided_state(source, decision, states[0])
            if found != wanted:
                raise self.violated(f"{source} is decided to {end} with {found}; a replay gives {wanted}")


class StageOutputIsReplay(Checker, FlowWatcher):
    """``stage_output_is_replay``: what each writer of a stage has in each output partition is what a replay of the
    stage's recorded inputs gives there, in its order: nothing else at any time, and all of it as far as it is decided.

    Judged by key and value; rows that no step could take go by what came in.
    """

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                for source in stage.story.sources:
                    self._judge(stage, source, stage.replayed(source))

    def _judge(self, stage: StageView, source: TopicPartition, replayed: Replayed) -> None:
        counts, plan = stage.flow.story.partition_counts, stage.flow.story.plan
        for topic in (stage.stage.output.topic, plan.bad_topic, plan.late_topic):
            for number in range(counts[topic]):
                tp = TopicPartition(topic, number)
                self._compare(stage, source, tp, replayed.rows.get(tp, []))

    def _compare(
        self, stage: StageView, source: TopicPartition, tp: TopicPartition, due: Sequence[Made]
    ) -> None:
        stored = stage.written(source, tp)
        for place, record in enumerate(stored):
            if place >= len(due) or not _is(record, due[place]):
                wanted = due[place] if place < len(due) else "nothing more"
                raise self.violated(
                    f"{stage.story.sink_id} wrote {record} of {source} to {tp} as row {place}; a replay gives {wanted}"
                )
        decided = stage.decided_end(source)
        wanted_count = sum(made.due <= decided for made in due)
        end = stage.decisions[-1].output_ends.get(tp, 0) if stage.decisions else 0
        stored_count = sum(record.record_offset < end for record in stored)
        if stored_count < wanted_count:
            raise self.violated(
                f"{stage.story.sink_id} has decided {source} to {decided}, and {tp} has {stored_count} of the "
                f"{wanted_count} rows of it below {end}: {due[stored_count]} is missing"
            )


def _is(record: StoredRecord, made: Made) -> bool:
    value = record.value if isinstance(made.value, bytes) else read_row(record.value)
    return record.key == made.key and value == made.value


class FlowStopsAreRight(Checker, FlowWatcher):
    """``flow_stops_are_right``: a stage stops with a named error only where there is reason for it, and never for good.

    A lost connection passes. ``SinkFenced`` needs a rival. ``StepFailed`` needs a step that is not mended, and
    ``ReplayDiffers`` steps that were changed. ``StorageError`` needs so many attempts on one machine that all copies of
    a state are in use. Nothing else is right: what was recorded is there. Judged by what was done to the stage before.
    """

    def flow_stopped(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        match error:
            case SinkFenced():
                is_right = driver.had_rival
            case StepFailed():
                is_right = not driver.is_mended
            case ReplayDiffers():
                is_right = story.was_mended
            case StorageError():
                is_right = sum(len(other.workers) for other in story.drivers) > SLOTS_MAX
            case BrokerError():
                # Rows bear their driver's time, and the server's clock may be too far behind it to take them.
                is_right = error.code.retriable or error.code is ErrorCode.INVALID_TIMESTAMP
            case _:
                is_right = isinstance(error, (ConnectionLost, *driver.SPARKS_OWN))
        if not is_right:
            raise self.violated(f"{driver.name} stopped without reason: {type(error).__name__}: {error}")

    def flow_left(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        raise self.violated(f"nothing gets {story.sink_id} over {type(error).__name__}: {error}")
