"""A flow's stage on a real server: its tasks are their own source, and keep state in the decisions. No JVM."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from semel.core.sink.committed_state import STATE_BYTES_MAX, CommittedState
from semel.core.sink.journal import SINKS_TOPIC, Cut
from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.errors import (
    ConfigError,
    NonDeterministicReplay,
    PlanNotSupported,
    ReplayDiffers,
    ReplayUnprovable,
    SinkFenced,
)
from semel.spark.commit import decide_batch
from semel.spark.known_sinks import known_sinks, reset_sink
from semel.spark.options import Connection, SinkOptions, sink_options, stage_sink_id
from semel.spark.resuming import check_before_fencing, resume, resume_ends
from semel.spark.runs import plan_batch
from semel.spark.sink_log import SinkLog, decided_ends
from semel.spark.task_write import write_range
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")


class Killed(Exception):
    """The task's process is gone, in the middle of its rows."""


class Stage:
    """A running sum over source partitions, a row for each offset; a process of its own, as far as caches go."""

    def __init__(self, bootstrap: str, output: str, **options) -> None:
        self.output = output
        self.run_id = uuid.uuid4().hex
        given = {"plan": "p1", "state_plan": "sum", **options}
        self.options = SinkOptions(Connection(bootstrap, self.run_id), None, f"{output}/fold", **given)
        self.ticket = None
        self.begun: list[SourceRange] = []

    @property
    def sink_id(self) -> str:
        return self.options.sink_id

    def resume(self) -> dict[int, int]:
        """Where to begin, by partition; what is not named begins at 0."""
        found = resume(self.options.connection, self.sink_id)
        self.options = replace(self.options, resumed_epoch=found.sink_epoch)
        return {tp.partition: end for tp, end in found.ends.items()}

    def plan(self):
        self.ticket = plan_batch(self.options, self.run_id)
        return self.ticket

    def task(
        self,
        partition: int,
        first: int,
        end: int,
        killed_after: int | None = None,
        *,
        rows_left_out: int = 0,
        surplus_below: int | None = None,
    ) -> Attempted:
        """One attempt; with ``killed_after``, so many rows of it are stored."""
        source_range = SourceRange(TopicPartition("merge", partition), first, end, 0, 1, (), "A", "A")
        decided = self.ticket.state_of(source_range)
        sums = [0 if decided is None else int(decided.inline)]

        def rows() -> Iterator[pa.RecordBatch]:
            self.begun.append(source_range)
            for number in range(first, end - rows_left_out):
                if number - first == killed_after:
                    raise Killed
                sums.append(sums[-1] + number)
                value = b"%d: %05d is %d" % (partition, number, sums[-1])
                yield pa.record_batch({"topic": pa.array([self.output]), "value": pa.array([value])})

        return write_range(
            self.options,
            self.ticket,
            source_range,
            rows(),
            query_id=self.run_id,
            task_attempt_id=partition,
            attempt_number=0,
            state=lambda: CommittedState(b"%d" % sums[-1]),
            is_own_source=True,
            surplus_below=surplus_below,
        )

    def decide(self, *attempted: Attempted, batch_id: int = 0):
        return decide_batch(self.options, self.ticket.without_states(), attempted, self.run_id, batch_id)

    def micro_batch(self, *ranges: tuple[int, int, int]):
        """A whole one, without any trouble."""
        self.plan()
        return self.decide(*(self.task(*each) for each in ranges))


def expected(ends: dict[int, int], first: int = 0) -> list[bytes]:
    rows = []
    for partition, end in ends.items():
        total = 0
        for number in range(first, end):
            total += number
            rows.append(b"%d: %05d is %d" % (partition, number, total))
    return sorted(rows)


@pytest.fixture
def stage(log):
    """``stage(output)``: of that flow."""

    def make(output: str, **options) -> Stage:
        return Stage(log.bootstrap, output, **options)

    return make


def test_the_state_goes_on_from_decision_to_decision(log, stage):
    output = log.topic("out", 2)
    first = stage(output)
    first.micro_batch((0, 0, 4), (1, 0, 2))
    first.micro_batch((0, 4, 6))
    decision = first.micro_batch((1, 2, 5))
    assert {state.inline for state in decision.states.values()} == {b"15", b"10"}
    assert decision.state_plan == "sum"
    assert log.values(output) == expected({0: 6, 1: 5})


@pytest.mark.parametrize("sent", [0, 1, 3])
@pytest.mark.parametrize("cuts", [(5, 6, 9), (7, 9), (9,)])
def test_a_stage_that_is_killed_goes_on_elsewhere_with_other_cuts(log, stage, sent, cuts):
    output = log.topic("out", 2)
    killed = stage(output)
    killed.micro_batch((0, 0, 4), (1, 0, 2))
    killed.plan()
    with pytest.raises(Killed):
        killed.task(0, 4, 8, sent)
    successor = stage(output)
    assert successor.resume() == {0: 4, 1: 2}
    for begin, end in zip((4, *cuts), cuts, strict=False):
        successor.micro_batch((0, begin, end))
    successor.micro_batch((1, 2, 3))
    assert log.values(output) == expected({0: 9, 1: 3})
    with pytest.raises(SinkFenced):
        killed.micro_batch((0, 4, 8))


@pytest.mark.parametrize("sent", [0, 2])
def test_a_stage_that_is_killed_in_its_first_range_begins_where_that_did(log, stage, sent):
    output = log.topic("out")
    killed = stage(output)
    assert killed.resume() == {}
    killed.plan()
    with pytest.raises(Killed):
        killed.task(0, 3, 8, sent)
    successor = stage(output)
    assert successor.resume() == ({0: 3} if sent else {})
    successor.micro_batch((0, 3, 6))
    assert log.values(output) == expected({0: 6}, 3)
    assert resume_ends(successor.options.connection, successor.sink_id) == (
        {TopicPartition("merge", 0): 6},
        {"merge": "A"},
    )


def test_a_task_that_is_its_own_source_makes_nothing_of_what_is_decided(log, stage):
    output = log.topic("out")
    first = stage(output)
    first.micro_batch((0, 0, 4))
    first.begun.clear()
    assert first.micro_batch((0, 0, 4)) is None
    assert first.begun == []
    first.micro_batch((0, 4, 5))
    assert log.values(output) == expected({0: 5})


def test_a_refused_range_is_not_begun(log, stage):
    first = stage(log.topic("out"))
    first.micro_batch((0, 0, 4))
    first.begun.clear()
    with pytest.raises(ReplayDiffers, match="Run the flow again: it goes on where the log has decided to"):
        first.micro_batch((0, 3, 6))
    assert first.begun == []


def test_rows_without_a_state_are_not_reported(log, stage):
    first = stage(log.topic("out"))
    first.plan()
    source_range = SourceRange(TopicPartition("merge", 0), 0, 1)
    with pytest.raises(PlanNotSupported, match="has written, and has no state"):
        write_range(
            first.options, first.ticket, source_range, [], query_id="q", task_attempt_id=1, attempt_number=0
        )


def test_rows_that_no_later_range_can_have_are_other_rows(log, stage):
    """A step that gives fewer rows the second time would leave them in the output, undecided for ever."""
    output = log.topic("out")
    killed = stage(output)
    killed.plan()
    with pytest.raises(Killed):
        killed.task(0, 0, 8, 5)
    successor = stage(output)
    successor.plan()
    with pytest.raises(NonDeterministicReplay, match=r"gave 4 rows for .*run the flow as it was"):
        successor.task(0, 0, 6, rows_left_out=2, surplus_below=6)
    stage(output).micro_batch((0, 0, 6))
    assert log.values(output) == expected({0: 6})


# -- plans ---------------------------------------------------------------------------------------------------


def test_a_changed_flow_waits_for_its_undecided_rows(log, stage):
    output = log.topic("out")
    killed = stage(output)
    killed.micro_batch((0, 0, 4))
    killed.plan()
    with pytest.raises(Killed):
        killed.task(0, 4, 8, 2)
    with pytest.raises(ReplayDiffers, match="Run it as it was until they are decided, then change it"):
        stage(output, plan="p2").plan()
    stage(output).micro_batch((0, 4, 8))
    stage(output, plan="p2").micro_batch((0, 8, 9))
    assert log.values(output) == expected({0: 9})


def test_a_run_whose_flow_was_changed_begins_anew(log, stage):
    """Within one process, as a notebook has it."""
    output = log.topic("out")
    running = stage(output)
    running.micro_batch((0, 0, 4))
    epoch = running.ticket.sink_epoch
    running.options = replace(running.options, plan="p2")
    running.micro_batch((0, 4, 5))
    assert running.ticket.plan == "p2"
    assert running.ticket.sink_epoch > epoch
    assert log.values(output) == expected({0: 5})


def test_another_state_is_refused_and_disturbs_nobody(log, stage):
    output = log.topic("out")
    running = stage(output)
    running.micro_batch((0, 0, 4))
    with pytest.raises(PlanNotSupported, match="was made by the plan sum, and it is now the plan mean"):
        stage(output, state_plan="mean").plan()
    running.micro_batch((0, 4, 5))
    assert log.values(output) == expected({0: 5})


def test_a_flow_that_was_changed_while_it_runs_leaves_the_running_one_alone(log, stage):
    """It would be refused behind its FENCE, and the one that could decide the rows would be gone."""
    output = log.topic("out")
    running, changed = stage(output), stage(output, plan="p2")
    check_before_fencing(changed.options)
    running.plan()
    half = running.task(0, 0, 4)
    with pytest.raises(ReplayDiffers, match="If it runs now, let it come to its end and start this one then"):
        check_before_fencing(changed.options)
    check_before_fencing(stage(output).options)
    running.decide(half)
    with pytest.raises(PlanNotSupported, match="it is now the plan mean"):
        check_before_fencing(stage(output, plan="p2", state_plan="mean").options)
    check_before_fencing(changed.options)
    assert changed.resume() == {0: 4}
    changed.micro_batch((0, 4, 5))
    assert log.values(output) == expected({0: 5})


def test_a_reset_forgets_the_state_and_whose_it_was(log, stage):
    output = log.topic("out")
    stage(output).micro_batch((0, 0, 4))
    reset_sink(log.bootstrap, f"{output}/fold")
    other = stage(output, plan="p2", state_plan="mean")
    assert other.resume() == {}
    other.micro_batch((0, 0, 2))
    assert log.values(output) == sorted(expected({0: 4}) + expected({0: 2}))


# -- where inputs were trimmed -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_first_range_that_is_trimmed_binds_only_if_rows_of_it_are_stored(log, stage, is_stored):
    source, output = log.topic("in"), log.topic("out")
    log.write(source, [b"x"] * 8)
    tp = TopicPartition(source, 0)
    killed = stage(output, state_plan="")
    killed.plan()
    source_range = SourceRange(tp, 0, 8)
    SinkLog(killed.options.connection, killed.sink_id).append(
        Cut(killed.sink_id, killed.ticket.sink_epoch, tp, 0, 8, 1)
    )
    if is_stored:
        batch = pa.record_batch({"topic": pa.array([output]), "value": pa.array([b"x"])})
        ways = {"query_id": "q", "task_attempt_id": 1, "attempt_number": 0}
        write_range(killed.options, killed.ticket, source_range, iter([batch]), **ways)
    assert resume_ends(killed.options.connection, killed.sink_id)[0] == {tp: 0}
    log.cluster.delete_records({tp: 5})
    assert resume_ends(killed.options.connection, killed.sink_id)[0] == ({tp: 0} if is_stored else {})
    log.cluster.delete_topics([source])
    assert resume_ends(killed.options.connection, killed.sink_id)[0] == {tp: 0}


# -- one flow at a time --------------------------------------------------------------------------------------


def test_who_read_where_to_begin_before_another_took_over_stops_without_a_fence(log, stage):
    output = log.topic("out")
    slow, quick = stage(output), stage(output)
    slow.resume()
    assert quick.resume() == {}
    with pytest.raises(SinkFenced, match="after this one had read where to begin"):
        slow.plan()
    quick.micro_batch((0, 0, 4))
    quick.micro_batch((0, 4, 5))
    assert log.values(output) == expected({0: 5})


def test_who_is_overtaken_between_looking_and_fencing_stops_behind_its_fence(log, stage, monkeypatch):
    """It is the newest by then, and would plan from ends that another has decided beyond."""
    from semel.spark.sink_log import SinkLog

    output = log.topic("out")
    slow, quick = stage(output), stage(output)
    slow.resume()
    take_over = SinkLog.take_over

    def overtaken_first(self, query=""):
        monkeypatch.undo()
        quick.resume()
        quick.micro_batch((0, 0, 4))
        return take_over(self, query)

    monkeypatch.setattr(SinkLog, "take_over", overtaken_first)
    with pytest.raises(SinkFenced, match="after this one had read where to begin"):
        slow.plan()
    with pytest.raises(SinkFenced, match="A flow runs in one place at a time"):
        quick.micro_batch((0, 4, 5))
    successor = stage(output)
    assert successor.resume() == {0: 4}
    successor.micro_batch((0, 4, 5))
    assert log.values(output) == expected({0: 5})


# -- names and sizes -----------------------------------------------------------------------------------------


def test_a_stage_is_known_as_flow_and_stage(log, stage):
    output = log.topic("out")
    first = stage(output)
    first.micro_batch((0, 0, 4))
    assert f"{output}/fold" in known_sinks(log.bootstrap)
    assert decided_ends(first.options.connection, f"{output}/fold")[0] == {TopicPartition("merge", 0): 4}


def test_no_users_sink_is_named_like_a_stage():
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "out"}
    with pytest.raises(ConfigError, match="sinkId='visits/fold'"):
        sink_options({**options, "sinkId": "visits/fold"}, streaming=True)
    assert stage_sink_id("visits", "fold") == "visits/fold"


@pytest.mark.parametrize(
    ("flow", "name"),
    [("a/b", "c"), ("a", "b/c"), ("", "c"), ("a", ""), ("x" * 101, "c"), ("txn.a", "b"), ("a", "b@1")],
)
def test_a_stage_has_a_name_that_the_log_takes(flow, name):
    with pytest.raises(ConfigError):
        stage_sink_id(flow, name)


@pytest.mark.slow
def test_as_much_state_as_may_be_is_decided_and_read_again(log, stage):
    """64 partitions of 64 KiB that no compressor makes smaller; and one byte more stops before the DECISION."""
    output = log.topic("out")
    first = stage(output)
    first.plan()
    attempted = [first.task(partition, 0, 1) for partition in range(64)]
    full = [
        replace(
            each,
            report=replace(each.report, state=CommittedState(os.urandom(STATE_BYTES_MAX), number, number)),
        )
        for number, each in enumerate(attempted)
    ]
    decision = first.decide(*full)
    again = stage(output)
    assert again.plan().states == decision.states == {each.report.writer: each.report.state for each in full}
    with pytest.raises(PlanNotSupported, match="a decision takes 4194304 of them"):
        again.micro_batch((64, 0, 1))
    assert known_sinks(log.bootstrap)[first.sink_id].decision.states == decision.states


def test_a_decision_log_that_takes_no_large_decision_takes_no_state(log, stage):
    """The rows would be in the output already, and no run could ever decide them."""
    output = log.topic("out")
    stage(output).micro_batch((0, 0, 2))
    log.cluster.alter_configs({SINKS_TOPIC: {"max.message.bytes": "1048588"}})
    try:
        with pytest.raises(
            ReplayUnprovable, match=r"takes records of 1048588 bytes.* -c max.message.bytes=16777216`"
        ):
            stage(output).plan()
        stage(log.topic("other"), state_plan="").plan()
    finally:
        log.cluster.alter_configs({SINKS_TOPIC: {"max.message.bytes": "16777216"}})
    stage(output).micro_batch((0, 2, 3))
    assert log.values(output) == expected({0: 3})
