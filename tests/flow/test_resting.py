"""Windows of partitions that rest, in flows in this process: when they close, and what holds them open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.flow.flowing import end_offsets, put, records, rows, run, wait_for_growth

from semel.flow import source
from semel.flow.here import StageHere
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts
from semel.flow.task import run_attempt
from semel.flow.topics import made_topics
from semel.spark.options import Connection
from semel.spark.process import SinkProcess, SystemClock, connect, inside
from semel.spark.runs import plan_batch

CLICK = "user string, at timestamp"
MINUTE_MS = 60_000


def clicks(idle: str | None = "10 minutes", lateness: str = "0 s"):
    by_user = source("clicks", json=CLICK).key_by("user", partitions=2)
    return by_user.tumbling("1 hour", on="at", lateness=lateness, idle=idle).count().to("visits")


def click(user: str, minute: int, year: int = 2024):
    return {"user": user, "at": f"{year}-01-01T{minute // 60:02}:{minute % 60:02}:00Z"}


A, B = "a", "d"  # in two partitions


class HandClock(SystemClock):
    """The machine's, and what the test has added."""

    def __init__(self) -> None:
        self.skipped_ms = 0

    def elapsed_ms(self) -> int:
        return super().elapsed_ms() + self.skipped_ms


class Here:
    """A flow's stages in the hands of a test, in a process of its own."""

    def __init__(self, bootstrap, store, flow=None, cuts=None) -> None:
        self.clock = HandClock()
        self.process = SinkProcess("a test", "", self.clock)
        with inside(self.process):
            connection = Connection(bootstrap)
            self.plan = made_topics(connect(connection), (flow or clicks()).plan())
            self.stages = [StageHere(each, connection, cuts or Cuts(), store) for each in self.plan.stages]

    def skip(self, minutes: float) -> None:
        self.clock.skipped_ms += round(minutes * MINUTE_MS)

    def step(self, number: int) -> bool:
        with inside(self.process):
            return self.stages[number].step() is not None

    def work(self) -> int:
        """Until nothing moves."""
        count = 0
        while sum(self.step(number) for number in range(len(self.stages))):
            count += 1
        return count


def told(bootstrap):
    return sorted(
        (row["user"], row["window_start"][11:16], row["count"]) for row in rows(bootstrap, "visits")
    )


@pytest.fixture
def bootstrap(semel_server):
    return semel_server.bootstrap


def test_a_window_closes_after_its_length_of_rest_and_then_the_flow_comes_to_rest(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1), click(B, 2), click(A, 5))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    for _ in range(5):
        flow.skip(10)
        assert flow.work() == 1
        assert flow.work() == 0
    assert told(bootstrap) == []
    flow.skip(10)
    flow.work()
    assert told(bootstrap) == [(A, "00:00", 2), (B, "00:00", 1)]
    before = len(records(bootstrap, "visits.clicks-by-user-tumbling-1h-count.merge"))
    for _ in range(5):
        flow.skip(1000)
        assert flow.work() == 0
    assert len(records(bootstrap, "visits.clicks-by-user-tumbling-1h-count.merge")) == before
    assert replay(flow.plan, bootstrap).holds


def test_without_an_idle_time_windows_stay_open(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1))
    flow = Here(bootstrap, tmp_path, clicks(idle=None))
    flow.work()
    flow.skip(10_000)
    assert flow.work() == 0
    assert told(bootstrap) == []


def test_a_partition_that_rests_while_another_works_is_closed_by_itself(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1), click(B, 1))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    for minute in range(9, 90, 9):
        put(bootstrap, "clicks", click(B, minute))
        flow.skip(9)
        flow.work()
    assert told(bootstrap) == [(A, "00:00", 1), (B, "00:00", 7)]


def test_rows_that_a_stage_above_has_not_passed_on_yet_hold_the_windows_open(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    put(bootstrap, "clicks", click(A, 59))
    for _ in range(9):
        flow.skip(30)
        assert not flow.step(1)
    flow.step(0)
    flow.work()
    assert records(bootstrap, "visits.late") == []
    flow.skip(60)
    flow.work()
    assert told(bootstrap) == [(A, "00:00", 2)]


@pytest.mark.thorough
def test_what_came_up_to_the_proof_counts_where_the_sources_never_stand_still(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1), click(B, 1))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    for minute in range(10, 100, 10):
        flow.skip(10)
        put(
            bootstrap, "clicks", click(B, minute)
        )  # whenever the second stage looks, there is something new above
        flow.step(1)
        flow.step(0)
        put(bootstrap, "clicks", click(B, minute))
        flow.skip(0.1)
        flow.step(1)
    assert (A, "00:00", 1) in told(bootstrap)


def test_last_years_rows_in_bursts_are_not_late(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1, 2019))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    for minute in (20, 40, 59):
        flow.skip(15)
        flow.work()
        put(bootstrap, "clicks", click(A, minute, 2019))
        flow.work()
    assert records(bootstrap, "visits.late") == []
    flow.skip(61)
    flow.work()
    assert told(bootstrap) == [(A, "00:00", 4)]


def test_time_in_which_nobody_planned_does_not_count(bootstrap, tmp_path):
    put(bootstrap, "clicks", click(A, 1))
    first = Here(bootstrap, tmp_path)
    first.work()
    first.skip(50)
    first.work()
    first.skip(60)
    second = Here(bootstrap, tmp_path)
    second.work()
    second.skip(9)
    second.work()
    assert told(bootstrap) == []
    second.skip(1)
    second.work()
    assert told(bootstrap) == [(A, "00:00", 1)]


@pytest.mark.thorough
def test_ticks_are_replayed_with_other_cuts_where_they_were(bootstrap, tmp_path):
    """The first run dies with rows of ticks undecided; what they closed is met, and not told again."""
    put(bootstrap, "clicks", click(A, 1), click(B, 2))
    flow = Here(bootstrap, tmp_path)
    flow.work()
    with inside(flow.process):
        stage = flow.stages[1]
        begun = stage._at
        for _ in range(7):
            flow.skip(10)
            end = stage._ranges.next_end(begun)
        tasks = stage._ranges.tasks(begun, end)
        assert [len(task.entries) for task in tasks] == [6, 6]
        ticket = plan_batch(stage._options, stage._query_id)
        for number, task in enumerate(tasks[:1]):
            run_attempt(
                stage.stage,
                stage._options,
                ticket,
                task,
                query_id=stage._query_id,
                task_attempt_id=number,
                attempt_number=0,
                store=tmp_path,
            )
    first = told(bootstrap)
    assert len(first) == 1
    put(bootstrap, "clicks", click(A, 3), click(B, 62))
    for cuts in (Cuts(entries_max=1), Cuts(entries_max=4)):
        run(clicks(), bootstrap, tmp_path / str(cuts.entries_max), cuts)
    assert told(bootstrap) == [(A, "00:00", 1), (B, "00:00", 1)]
    assert [json.loads(each["value"])["user"] for each in records(bootstrap, "visits.late")] == [A]
    again = replay(flow.plan, bootstrap)
    assert again.holds, again.text()


@pytest.mark.thorough
def test_windows_over_windows_close_one_behind_the_other(bootstrap, tmp_path):
    hours = source("clicks", json=CLICK).key_by("user").tumbling("1 hour", on="at", idle="20 minutes").count()
    days = hours.tumbling("1 day", on="window_start", idle="20 minutes").sum("count").to("days")
    assert len(days.plan().stages) == 2
    put(bootstrap, "clicks", click(A, 1), click(A, 70))
    flow = Here(bootstrap, tmp_path, days)
    flow.work()
    for _ in range(3 * 26):
        flow.skip(20)
        flow.work()
    assert [row["sum_count"] for row in rows(bootstrap, "days")] == [2]
    assert flow.work() == 0


CHILD = """
import sys
from pathlib import Path
from semel.flow.here import run_here
from semel.flow.stage_ranges import Cuts
from tests.flow.test_resting import clicks
run_here(clicks("20 ms", "0 s").plan(), sys.argv[1], store=Path(sys.argv[2]), cuts=Cuts(entries_max=int(sys.argv[3])))
"""


@pytest.mark.thorough
def test_killed_while_it_ticks_it_is_a_replay_of_what_it_recorded(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    merge_log = "visits.clicks-by-user-tumbling-1h-count.merge"
    for turn in range(4):
        put(bootstrap, "clicks", *(click(f"u{n}", 60 * turn + n % 60) for n in range(200)))
        before = end_offsets(bootstrap, merge_log)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, bootstrap, str(tmp_path), str(1 + turn)], stderr=subprocess.DEVNULL
        )
        wait_for_growth(
            bootstrap, merge_log, child, 20 + 5 * turn, before
        )  # of heads and entries there are fewer
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    flow = clicks("20 ms", "0 s")
    run(flow, bootstrap, tmp_path)
    again = replay(flow.plan(), bootstrap)
    assert again.holds and again.is_complete and again.is_at_rest, again.text()
    recorded = records(bootstrap, merge_log)
    assert any(json.loads(each["value"]).get("tick_ms") for each in recorded)
