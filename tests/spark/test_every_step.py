"""The sink's shells on a real server, with a driver that stops at every one of its requests in turn.

A *killed* driver stops before a request or after its effect; a *paused* one goes on once another driver has
taken over and finished. No Spark: the planner, the tasks and the commit are called as Spark calls them.
"""

from __future__ import annotations

import contextlib
import itertools

import pyarrow as pa
import pytest
from tests.spark.mortal import Died, MortalCluster, die, nothing
from tests.thinning import every

from semel.client.blocking import Cluster
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import SINKS_TOPIC, Decision
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.task import Attempted, TaskReport, may_write
from semel.errors import SemelError, SinkFenced
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.process import this_process
from semel.spark.refusing import allow
from semel.spark.runs import plan_batch
from semel.spark.sink_log import SinkLog
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_caches")]

REQUESTS = 26  # that change something, in the three micro-batches below


class Driver:
    """Spark's calls of one query, in a "process" of its own: no cache is shared with another driver."""

    numbers = itertools.count()

    def __init__(
        self, bootstrap: str, sink_id: str, cluster: Cluster | None = None, checkpoint: str = ""
    ) -> None:
        self.checkpoint = checkpoint or f"checkpoint-{next(self.numbers)}"
        self.connection = Connection(bootstrap, f"driver-{next(self.numbers)}")
        self.options = SinkOptions(self.connection, None, sink_id)
        if cluster is not None:
            this_process().clusters[self.connection] = cluster

    def micro_batch(self, batch_id: int, *work: tuple[SourceRange, pa.RecordBatch]) -> None:
        ticket = plan_batch(self.options, self.checkpoint)
        attempted = []
        for number, (source_range, rows) in enumerate(work):
            writer = source_range.writer
            if allow(may_write(ticket, source_range, "q")) is Verdict.SKIP:
                report = TaskReport(writer, source_range, -1, 0, skipped=True)
            else:
                task = TaskWrite(self.options, ticket, writer, source_range, 100 + number, 0, "q")
                report = task.run([rows.slice(0, 3), rows.slice(3)])
            attempted.append(Attempted(report, False))
        decide_batch(self.options, ticket, attempted, "q", batch_id)


def rows(first: int, end: int, *topics: str) -> pa.RecordBatch:
    numbers = range(first, end)
    return pa.record_batch(
        {
            "key": pa.array([b"%d" % (number % 5) for number in numbers]),
            "value": pa.array([b"%04d" % number for number in numbers]),
            "topic": pa.array([topics[number % len(topics)] for number in numbers]),
        }
    )


@pytest.fixture
def topics(log):
    return log.topic("a", 2), log.topic("b")


@pytest.fixture
def work(topics):
    """Three micro-batches of two writers; the second topic comes up in the second one."""
    first, second = TopicPartition("in", 0), TopicPartition("in", 1)
    return [
        [
            (SourceRange(first, 0, 10), rows(0, 10, topics[0])),
            (SourceRange(second, 0, 5), rows(10, 15, topics[0])),
        ],
        [
            (SourceRange(first, 10, 20), rows(20, 30, *topics)),
            (SourceRange(second, 5, 9), rows(30, 34, topics[0])),
        ],
        [(SourceRange(first, 20, 24, idle_ends=((second, 9),)), rows(40, 44, topics[1]))],
    ]


def run_all(driver: Driver, work, first: int = 0) -> None:
    for batch_id, pieces in enumerate(work[first:], first):
        driver.micro_batch(batch_id, *pieces)


def expected(work) -> list[bytes]:
    return sorted(value for pieces in work for _, batch in pieces for value in batch["value"].to_pylist())


def stored(log, topics) -> list[bytes]:
    return sorted(value for topic in topics for value in log.values(topic))


def test_planner_processes_of_one_query_take_turns(log, topics, work):
    """Spark pools them: with two queries in a session, a query's planner is now this one, now that one."""
    one, two = (Driver(log.bootstrap, f"pooled-{topics[0]}", checkpoint="ck") for _ in range(2))
    for batch_id, pieces in enumerate(work):
        (one, two)[batch_id % 2].micro_batch(batch_id, *pieces)
    assert stored(log, topics) == expected(work)


def test_another_querys_planner_does_not_give_way(log, topics, work):
    one, two = (Driver(log.bootstrap, f"stolen-{topics[0]}") for _ in range(2))
    one.micro_batch(0, *work[0])
    two.micro_batch(1, *work[1])
    with pytest.raises(SinkFenced, match="taken over by process"):
        one.micro_batch(2, *work[2])


def test_the_decision_log_is_kept_for_ever_and_takes_large_decisions(log, topics, work):
    Driver(log.bootstrap, f"kept-{topics[0]}").micro_batch(0, *work[0])
    config = log.cluster.describe_configs([SINKS_TOPIC])[SINKS_TOPIC]
    assert (config["retention.ms"].value, config["retention.bytes"].value) == ("-1", "-1")
    sink = SinkLog(Connection(log.bootstrap), f"large-{topics[0]}")
    ends = {TopicPartition("out", number): number for number in range(100_000)}
    sink.append(Decision(sink.sink_id, 0, "q", 0, ends, 0, 0, {}, {}))
    history = SinkHistory(sink.sink_id)
    sink.read(history)
    assert history.decision.source_ends == ends


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("step", every(7, range(REQUESTS)))
def test_killed_at_any_request(log, topics, work, step, answered):
    """Spark replays the micro-batch that it has no commit entry of, whether it was decided or not."""
    hooks = (nothing, die) if answered else (die, nothing)
    mortal = Driver(log.bootstrap, f"killed-{topics[0]}", MortalCluster(log.bootstrap, step, *hooks))
    done = 0
    with contextlib.suppress(Died):
        for done, pieces in enumerate(work):
            mortal.micro_batch(done, *pieces)
    run_all(Driver(log.bootstrap, f"killed-{topics[0]}"), work, done)
    assert stored(log, topics) == expected(work)


def test_there_is_no_further_request(log, topics, work):
    cluster = MortalCluster(log.bootstrap, REQUESTS, die, die)
    run_all(Driver(log.bootstrap, f"whole-{topics[0]}", cluster), work)
    assert cluster.left == 0


@pytest.mark.parametrize("step", every(5, range(1, REQUESTS, 2)))
def test_killed_and_its_successor_killed(log, topics, work, step):
    done = 0
    for at in (step, step * 7 % REQUESTS, step * 5 % REQUESTS):
        cluster = MortalCluster(log.bootstrap, at, nothing, die)
        driver = Driver(log.bootstrap, f"again-{topics[0]}", cluster)
        try:
            while done < len(work):
                driver.micro_batch(done, *work[done])
                done += 1
        except Died:
            this_process().runs.clear()
    run_all(Driver(log.bootstrap, f"again-{topics[0]}"), work, done)
    assert stored(log, topics) == expected(work)


@pytest.mark.parametrize("step", every(7, range(REQUESTS), first=1))
def test_paused_at_any_request_while_another_driver_takes_over(log, topics, work, step):
    """The one that was paused stops by itself, or finds all of its work done; it changes nothing."""
    sink_id = f"paused-{topics[0]}"
    done = 0

    def other_driver() -> None:
        run_all(Driver(log.bootstrap, sink_id), work, done)

    paused = Driver(log.bootstrap, sink_id, MortalCluster(log.bootstrap, step, other_driver, nothing))
    try:
        for done, pieces in enumerate(work):
            paused.micro_batch(done, *pieces)
    except SinkFenced as fenced:
        assert "taken" in str(fenced) or "taken over by process" in str(fenced)
    except SemelError as other:  # its plan was made for a sink that has gone on
        assert type(other).__name__ == "ReplayDiffers", other
    assert stored(log, topics) == expected(work)
