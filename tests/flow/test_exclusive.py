"""Exclusive producers on a real server: killed, doubled, forgotten, and given inputs that cannot be counted by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.flow.flowing import end_offsets, put, records, rows, run, wait_for_growth

import semel
from semel.client.blocking import Cluster
from semel.errors import ConfigError, PlanNotSupported, SinkFenced, StepFailed
from semel.flow import source
from semel.flow.exclusive import ExclusivePartition, check_is_exclusive, run_exclusive
from semel.spark.options import Connection
from semel.types import TopicPartition

COLUMNS = "n bigint"


def doubled(row):
    return {"n": 2 * row.n}


def numbers(topic="in", output="out"):
    return source(topic, json=COLUMNS).map(doubled, schema=COLUMNS).to(output)


def go(flow, bootstrap):
    told = []
    run_exclusive(flow.plan(), bootstrap, until_idle=True, told=told.append)
    return told


def fill(bootstrap, begin, end, topic="in"):
    """To partition ``n % 2``, in order."""
    with semel.Producer(bootstrap) as producer:
        for n in range(begin, end):
            producer.send(topic, b'{"n":%d}' % n, key=b"k%d" % n, partition=n % 2)


def made(bootstrap, output="out"):
    """What stands in each partition."""
    found = {0: [], 1: []}
    for record in records(bootstrap, output):
        found[record["partition"]].append(record["value"])
    return found


def wanted(count):
    return {side: [b'{"n":%d}' % (2 * n) for n in range(side, count, 2)] for side in (0, 1)}


@pytest.fixture
def bootstrap(semel_server):
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("in", 2)
    return semel_server.bootstrap


def test_each_row_stands_once_in_its_partition_however_often_it_is_started(bootstrap):
    total = 0
    for count in (7, 0, 1, 30, 0):
        fill(bootstrap, total, total + count)
        total += count
        assert sum(written.row_count for written in go(numbers(), bootstrap)) == count
        assert made(bootstrap) == wanted(total)
    assert [record["key"] for record in records(bootstrap, "out")][:3] == [b"k0", b"k2", b"k4"]
    with semel.Admin(bootstrap) as admin:  # the fences have taken offsets
        ends = admin.list_offsets({semel.TopicPartition("out", n): -1 for n in (0, 1)})
    assert all(end.offset > total // 2 for end in ends.values())


def test_it_ends_where_its_input_did_however_fast_that_grows(bootstrap):
    fill(bootstrap, 0, 4)
    told = []

    def growing(written):
        told.append(written)
        assert len(told) < 20, "it goes on behind the end that it began with"
        fill(bootstrap, 2 * len(told) + 2, 2 * len(told) + 4)

    run_exclusive(numbers().plan(), bootstrap, until_idle=True, told=growing)
    assert sum(written.row_count for written in told) == 4
    go(numbers(), bootstrap)
    assert made(bootstrap) == wanted(2 * len(told) + 4)


def test_whoever_starts_it_again_fences_the_one_that_runs(bootstrap):
    fill(bootstrap, 0, 4)
    go(numbers(), bootstrap)
    stage = check_is_exclusive(numbers().plan())
    older = ExclusivePartition(stage, Connection(bootstrap), 0)
    assert older.step() is None
    fill(bootstrap, 4, 6)
    go(numbers(), bootstrap)
    fill(bootstrap, 6, 8)
    with pytest.raises(SinkFenced, match="another copy"):
        older.step()
    go(numbers(), bootstrap)
    assert made(bootstrap) == wanted(8)


def test_a_row_that_fails_stops_it_there_and_the_mended_one_goes_on(bootstrap):
    def brittle(row):
        return {"n": 2 * row.n if 1 / (row.n - 20_000) else 0}

    fill(bootstrap, 0, 20_010)
    flow = source("in", json=COLUMNS).map(brittle, schema=COLUMNS).to("out")
    with pytest.raises(StepFailed, match="ZeroDivisionError"):
        go(flow, bootstrap)
    assert 0 < len(made(bootstrap)[0]) <= 10_000
    go(numbers(), bootstrap)
    assert made(bootstrap) == wanted(20_010)


def test_a_value_that_cannot_be_read_stops_it_for_it_would_be_missing_in_the_count(bootstrap):
    put(bootstrap, "in", {"n": 1}, b"{", {"n": 2})
    with pytest.raises(StepFailed, match=r"topic 'in'.*missing where rows are counted"):
        go(numbers(), bootstrap)


def test_inputs_with_gaps_are_refused_where_the_gap_is(bootstrap):
    fill(bootstrap, 0, 6)
    with Cluster(bootstrap) as cluster:
        grant = cluster.init_producer_id()
        cluster.write_fence({(grant.producer_id, 1): [TopicPartition("in", 0)]})
    go_on = "offset 3 of in-0 is no row"
    with pytest.raises(PlanNotSupported, match=go_on):
        go(numbers(), bootstrap)
    fill(bootstrap, 6, 10)
    with pytest.raises(PlanNotSupported, match=go_on):
        go(numbers(), bootstrap)
    found = made(bootstrap)[0]
    assert found == wanted(6)[0][: len(found)]


def test_a_gap_behind_what_is_done_is_found_where_it_comes(bootstrap):
    fill(bootstrap, 0, 6)
    go(numbers(), bootstrap)
    with Cluster(bootstrap) as cluster:
        grant = cluster.init_producer_id()
        cluster.write_fence({(grant.producer_id, 1): [TopicPartition("in", 1)]})
    fill(bootstrap, 6, 10)
    with pytest.raises(PlanNotSupported, match="offset 3 of in-1 is no row"):
        go(numbers(), bootstrap)
    assert made(bootstrap)[1] == wanted(6)[1]


def test_an_output_in_which_anybody_else_writes_is_refused(bootstrap):
    fill(bootstrap, 0, 4)
    go(numbers(), bootstrap)
    put(bootstrap, "out", *[{"n": n} for n in range(20)])
    with pytest.raises(PlanNotSupported, match="rows of another producer"):
        go(numbers(), bootstrap)


def test_an_input_that_was_made_anew_is_refused(bootstrap):
    fill(bootstrap, 0, 4)
    go(numbers(), bootstrap)
    with semel.Admin(bootstrap) as admin:
        admin.delete_topic("in")
        admin.create_topic("in", 2)
    fill(bootstrap, 0, 8)
    with pytest.raises(PlanNotSupported, match="rows of another producer"):
        go(numbers(), bootstrap)
    assert made(bootstrap) == wanted(4)


@pytest.mark.parametrize("trimmed", ["in", "out"])
def test_what_was_trimmed_is_refused(bootstrap, trimmed):
    fill(bootstrap, 0, 8)
    go(numbers(), bootstrap)
    with Cluster(bootstrap) as cluster:
        cluster.delete_records({TopicPartition(trimmed, 0): 2})
    with pytest.raises(PlanNotSupported, match="begins at offset 2"):
        go(numbers(), bootstrap)


@pytest.mark.parametrize(
    "flow, why",
    [
        (source("in", json=COLUMNS).filter(doubled).to("out"), "does not make one row of each"),
        (source("in", json=COLUMNS).where("n > 1").to("out"), "steps of Spark's"),
        (source("in", json=COLUMNS).key_by("n").to("out"), "another key"),
        (source("in", json=COLUMNS).key_by("n").count().to("out"), "2 stages"),
        (source("in", json=COLUMNS, key="n").count().to("out"), "merge log"),
    ],
)
def test_other_flows_are_refused_and_nothing_is_made(bootstrap, flow, why):
    with pytest.raises(ConfigError, match=why):
        go(flow, bootstrap)
    with semel.Admin(bootstrap) as admin:
        assert "out" not in admin.list_topics()


def test_partitions_have_to_be_as_many(bootstrap):
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 3)
    with pytest.raises(ConfigError, match="2 partitions and 'out' 3"):
        go(numbers(), bootstrap)


def test_it_writes_what_the_flow_writes_with_decisions(bootstrap, tmp_path):
    fill(bootstrap, 0, 100)
    go(numbers(), bootstrap)
    run(numbers(output="decided"), bootstrap, tmp_path)
    assert sorted(row["n"] for row in rows(bootstrap, "decided")) == sorted(
        row["n"] for row in rows(bootstrap, "out")
    )


CHILD = """
import sys
from semel.flow.exclusive import run_exclusive
from tests.flow.test_exclusive import numbers
import semel.flow.exclusive as exclusive
exclusive.ROWS_MAX = 300
run_exclusive(numbers(sys.argv[2], sys.argv[3]).plan(), sys.argv[1])
"""


def child(bootstrap, topic="in", output="out"):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, bootstrap, topic, output], stderr=subprocess.DEVNULL
    )


def killed_again_and_again(bootstrap, topic, output, crash=lambda: None):
    """Copies that are killed, and one that is paused over two others and goes on."""
    total = 0
    paused = None
    for turn in range(5):
        fill(bootstrap, total, total + 2_000, topic)
        total += 2_000
        before = end_offsets(bootstrap, output)
        running = child(bootstrap, topic, output)
        wait_for_growth(bootstrap, output, running, 1 + 250 * turn, before)
        if turn == 1:
            running.send_signal(signal.SIGSTOP)
            paused = running
            continue
        if turn == 2:
            crash()
        if turn == 3:
            paused.send_signal(signal.SIGCONT)
            paused.wait(60)  # it finds that others have taken its identity
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    run_exclusive(numbers(topic, output).plan(), bootstrap, until_idle=True)
    assert made(bootstrap, output) == wanted(total)


@pytest.mark.thorough
def test_killed_at_any_moment_and_with_a_copy_that_wakes_up(bootstrap, semel_server):
    def crash():
        semel_server.crash()
        semel_server.restart()

    killed_again_and_again(bootstrap, "in", "out", crash)


@pytest.mark.kafka
@pytest.mark.slow
def test_the_same_on_apache_kafka(apache_kafka):
    name = f"{time.time_ns():x}"
    with semel.Admin(apache_kafka.bootstrap) as admin:
        admin.create_topic(f"in-{name}", 2)
    killed_again_and_again(apache_kafka.bootstrap, f"in-{name}", f"out-{name}")


@pytest.mark.kafka
@pytest.mark.parametrize("compacted", ["in", "out"])
def test_what_is_compacted_is_refused(apache_kafka, compacted):
    name = f"{time.time_ns():x}"
    with semel.Admin(apache_kafka.bootstrap) as admin:
        for topic in ("in", "out"):
            policy = "compact" if topic == compacted else "delete"
            admin.create_topic(f"{topic}-{name}", 2, configs={"cleanup.policy": policy})
    with pytest.raises(PlanNotSupported, match=f"{compacted}-{name} is compacted"):
        go(numbers(f"in-{name}", f"out-{name}"), apache_kafka.bootstrap)
