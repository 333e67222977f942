"""Sinks that rest for longer than Apache Kafka remembers names and producers, with expiries of seconds.

By default it forgets a transactional id seven days after its last grant, and a producer id a day after the
newest timestamp of its records; a name that was forgotten is granted anew, with another producer id at epoch 0.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import Future
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.peers.apache_kafka import ApacheKafka
from tests.spark.driving import SOURCE, Driver, numbers

from semel.client.blocking import Cluster
from semel.core.sink.journal import SINKS_TOPIC, Fence, NamedWrite, decode
from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.core.sink.writes import writer_of
from semel.errors import ConnectionLost, NonDeterministicReplay, ReplayUnprovable, SinkFenced
from semel.spark import task_write
from semel.spark.batch_sink import plan_write
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.sink_log import DECISION_LOG_CONFIG, policy_of
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("own_caches")]

NAMES_LIVE_MS = 2_000
PRODUCERS_LIVE_MS = 2_000
LONG_AGO_MS = 1_600_000_000_000
KEPT = {"retention.ms": "-1"}  # rows of long ago, too
FORGETS_NAMES = {
    "transactional.id.expiration.ms": str(NAMES_LIVE_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
FORGETS_PRODUCERS = {
    "producer.id.expiration.ms": str(PRODUCERS_LIVE_MS),
    "producer.id.expiration.check.interval.ms": "200",
}
CLEANS = {"log.cleaner.backoff.ms": "100"}
NODES = {"names": FORGETS_NAMES | CLEANS, "producers": FORGETS_NAMES | FORGETS_PRODUCERS | CLEANS}
only_names = pytest.mark.parametrize("node", ["names"], indirect=True)
only_producers = pytest.mark.parametrize("node", ["producers"], indirect=True)


@pytest.fixture(scope="module", params=NODES)
def node(request, java_tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forgetful")
    with ApacheKafka(java_tool.java, java_tool.jars, folder, settings=NODES[request.param]) as node:
        yield node


@pytest.fixture
def log(node, log_of):
    with Cluster(node.bootstrap) as cluster:
        yield log_of(node.bootstrap, cluster)


@pytest.fixture
def options(log):
    """``options(sink_id, topic)``: a process of its own, as far as caches go."""

    def make(sink_id: str, topic: str) -> SinkOptions:
        return SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, sink_id)

    return make


@pytest.fixture
def rest(log):
    """``rest(sink_id)``: until the broker has forgotten a name that was granted after all of the sink's."""

    def wait() -> None:
        probe = f"probe-{uuid.uuid4().hex}"
        first = log.cluster.init_producer_id(transactional_id=probe)
        for _ in range(20):
            time.sleep((NAMES_LIVE_MS + 600) / 1000)
            if log.cluster.init_producer_id(transactional_id=probe).producer_id != first.producer_id:
                return
        raise AssertionError("the name was not forgotten")

    return wait


def fences(log, sink_id: str) -> list[Fence]:
    records = [decode(record.value) for record in log.read(SINKS_TOPIC) if record.value is not None]
    return [record for record in records if isinstance(record, Fence) and record.sink_id == sink_id]


def test_rows_after_a_long_rest_are_stored(log, options, rest):
    """Its producer ids and epochs would come again, and so its sequences: the log would call all rows stored."""
    topic = log.topic("out", 2)
    for turn in range(3):
        if turn:
            rest()
        Driver(options(topic, topic)).micro_batch(5 * turn, 5 * turn + 5, turn)
        assert log.values(topic) == numbers(0, 5 * turn + 5)


def test_after_a_rest_fewer_rows_come_and_more_after_the_next(log, options, rest):
    topic = log.topic("out", 2)
    ends = [0, 9, 11, 30]
    for turn in range(3):
        if turn:
            rest()
        Driver(options(topic, topic)).micro_batch(ends[turn], ends[turn + 1], turn)
    assert log.values(topic) == numbers(0, 30)


def test_a_sink_of_many_drivers_rests_and_is_fenced_by_nobody(log, options, rest):
    """Its earlier epochs are higher than those that a forgotten name begins with again."""
    topic = log.topic("out")
    for turn in range(4):
        Driver(options(topic, topic)).micro_batch(2 * turn, 2 * turn + 2, turn)
    rest()
    driver = Driver(options(topic, topic))
    driver.micro_batch(8, 20, 4)
    driver.micro_batch(20, 21, 5)
    assert log.values(topic) == numbers(0, 21)


def test_named_versions_after_a_long_rest(log, options, rest):
    topic = log.topic("out")

    def write(version: int) -> None:
        named = replace(options("", topic), sink_id=None, txn_app_id=topic, txn_version=version)
        plan = plan_write(named)
        assert plan.ticket is not None
        writer = writer_of(version, None, None, 0)
        task = TaskWrite(named, plan.ticket, writer, None, version, 0, "")
        report = task.run([pa.record_batch({"value": pa.array(numbers(3 * version, 3 * version + 3))})])
        decide_batch(
            named,
            plan.ticket,
            [Attempted(report, task.duplicates)],
            "",
            0,
            carry=False,
            write=NamedWrite(version, None, None),
        )

    for version in range(3):
        write(version)
    rest()
    write(3)
    rest()
    write(4)
    assert log.values(topic) == numbers(0, 15)


def test_rows_that_were_undecided_before_a_long_rest_are_met_again(log, options, rest):
    topic = log.topic("out", 2)
    killed = Driver(options(topic, topic))
    killed.micro_batch(0, 5, 0)
    ticket = killed.plan()
    killed.task(ticket, 5, 12, sent=4)
    rest()
    Driver(options(topic, topic)).micro_batch(5, 12, 1)
    rest()
    Driver(options(topic, topic)).micro_batch(12, 14, 2)
    assert log.values(topic) == numbers(0, 14)


@only_producers
def test_an_old_driver_does_not_decide_when_the_log_has_forgotten_it(log, options, rest):
    """Kafka takes a record at any epoch and sequence from a producer that it does not know."""
    topic = log.topic("out", 2)
    old = Driver(options(topic, topic))
    ticket = old.plan()
    done = old.task(ticket, 0, 5)
    newer = Driver(options(topic, topic))
    newer_ticket = newer.plan()
    rest()
    with pytest.raises(SinkFenced, match="taken over"):
        old.decide(ticket, done, 0)
    newer.decide(newer_ticket, newer.task(newer_ticket, 0, 7), 0)
    newer.micro_batch(7, 9, 1)
    assert log.values(topic) == numbers(0, 9)


@only_names
def test_a_sequence_of_an_earlier_run_is_not_taken_for_an_append(log, options):
    """The answer is NONE, with the offset of the rows that had the sequences then."""
    topic = log.topic("out")
    driver = Driver(options(topic, topic))
    driver.micro_batch(0, 3, 0)
    ticket = driver.plan()
    again = replace(ticket, next_sequences=dict.fromkeys(ticket.next_sequences, 0))
    with pytest.raises(ReplayUnprovable, match=f"answered as stored at offset 0 of {topic}-0"):
        driver.task(again, 3, 6)
    assert log.values(topic) == numbers(0, 3)
    Driver(options(topic, topic)).micro_batch(3, 6, 1)
    assert log.values(topic) == numbers(0, 6)


@only_producers
def test_a_task_that_stood_still_asks_before_it_writes(log, options, rest, monkeypatch):
    """Its writer is fenced in the output, and the output forgets writers as well as fences."""
    monkeypatch.setattr(task_write, "LOOK_AGAIN_MS", 1_000)
    topic = log.topic("out")
    zombie = Driver(options(topic, topic))
    zombie.micro_batch(0, 5, 0)
    ticket = zombie.plan()
    newer = Driver(options(topic, topic))
    newer.micro_batch(5, 9, 1)
    rest()
    with pytest.raises(SinkFenced, match="taken"):
        zombie.task(ticket, 5, 9)
    assert log.values(topic) == numbers(0, 9)


def rows_of_long_ago(first: int, end: int) -> pa.RecordBatch:
    then = pa.array([LONG_AGO_MS + number for number in range(first, end)], pa.timestamp("ms", "UTC"))
    return pa.record_batch({"value": pa.array(numbers(first, end)), "timestamp": then})


@only_producers
@pytest.mark.parametrize("elder", ["a retry's", "a stage's that ran twice"])
def test_an_attempt_repeats_rows_of_long_ago(log, options, elder):
    """Kafka counts a producer's rest from the timestamps of its rows: it may be forgotten as soon as it has written."""
    topic = log.topic("out", 2, **KEPT)
    driver = Driver(options(topic, topic))
    ticket = driver.plan()
    is_stream = elder == "a retry's"
    source_range = SourceRange(SOURCE, 0, 20) if is_stream else None
    writer = SourceRange(SOURCE, 0, 20).writer

    def attempt(task_attempt_id: int, end: int) -> Attempted:
        number = task_attempt_id if is_stream else 0
        task = TaskWrite(driver.options, ticket, writer, source_range, task_attempt_id, number, "q")
        pieces = [rows_of_long_ago(first, first + 2) for first in range(0, end, 2)]
        return Attempted(task.run(pieces), task.duplicates or number > 0)

    attempt(0, 12)
    until_forgotten(log, topic)
    driver.decide(ticket, attempt(1, 20), 0)
    assert log.values(topic) == numbers(0, 20)
    if is_stream:
        driver.micro_batch(20, 22, 1)
        assert log.values(topic) == numbers(0, 22)


@only_names
def test_an_attempt_that_has_fewer_rows_of_long_ago_than_the_one_before(log, options):
    topic = log.topic("out", **KEPT)
    driver = Driver(options(topic, topic))
    ticket = driver.plan()
    source_range = SourceRange(SOURCE, 0, 20)
    for number, end in enumerate((6, 4)):
        task = TaskWrite(driver.options, ticket, source_range.writer, source_range, number, number, "q")
        if number:
            with pytest.raises(NonDeterministicReplay):
                task.run([rows_of_long_ago(0, end)])
        else:
            task.run([rows_of_long_ago(0, end)])
    assert log.values(topic) == numbers(0, 6)


@only_producers
@pytest.mark.parametrize("lost", ["the first answer", "an answer with others in flight"])
def test_an_answer_about_rows_of_long_ago_is_lost(log, options, monkeypatch, lost):
    """The log has stored them, and forgotten whose they are, before they are sent again."""
    topic = log.topic("out", **KEPT)
    produce, begin_produce = Cluster.produce, Cluster.begin_produce
    sent = []

    def loses_the_first(cluster, batches, **how):
        answers = produce(cluster, batches, **how)
        if topic in {tp.topic for tp in batches}:
            sent.append(batches)
            if len(sent) == 1 and lost == "the first answer":
                until_forgotten(log, topic)
                raise ConnectionLost("the answer was lost")
        return answers

    def loses_another(cluster, batches, **how):
        future = begin_produce(cluster, batches, **how)
        if topic in {tp.topic for tp in batches}:
            sent.append(batches)
            if len(sent) == 3 and lost != "the first answer":
                future.result()
                until_forgotten(log, topic)
                future = Future()
                future.set_exception(ConnectionLost("the answer was lost"))
        return future

    monkeypatch.setattr(Cluster, "produce", loses_the_first)
    monkeypatch.setattr(Cluster, "begin_produce", loses_another)
    driver = Driver(options(topic, topic))
    ticket = driver.plan()
    source_range = SourceRange(SOURCE, 0, 20)
    task = TaskWrite(driver.options, ticket, source_range.writer, source_range, 0, 0, "q")
    report = task.run([rows_of_long_ago(first, first + 4) for first in range(0, 20, 4)])
    assert len(sent) >= 5
    driver.decide(ticket, Attempted(report, task.duplicates), 0)
    assert log.values(topic) == numbers(0, 20)


def until_forgotten(log, topic: str) -> None:
    """Or until it is clear that this node forgets no producer."""
    deadline_s = time.monotonic() + 3 * PRODUCERS_LIVE_MS / 1000
    tps = [TopicPartition(topic, number) for number in log.cluster.topic(topic).partitions]
    while any(log.cluster.describe_producers(tps).values()) and time.monotonic() < deadline_s:
        time.sleep(0.05)


@only_names
def test_an_output_that_is_made_anew_under_a_run(log, options):
    topic = log.topic("out")
    driver = Driver(options(topic, topic))
    driver.micro_batch(0, 5, 0)
    ticket = driver.plan()
    make_anew(log, topic, 1)
    with pytest.raises(ReplayUnprovable, match="made anew"):
        driver.task(ticket, 5, 8)
    with pytest.raises(ReplayUnprovable, match="deleted and made anew"):
        Driver(options(topic, topic)).plan()


def test_a_decision_log_that_is_compacted(log, options):
    """By its cleaner, from when it was made: it grows by no driver's records, and they go on from what is left."""
    topic = log.topic("out")
    Driver(options(topic, topic)).micro_batch(0, 1, 0)
    assert policy_of(log.cluster.describe_configs([SINKS_TOPIC])[SINKS_TOPIC]) == "compact"
    soon = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    log.cluster.alter_configs({SINKS_TOPIC: soon})
    turn, give_up_s = 1, time.monotonic() + 60
    while turn < 40 or len(of_sink(log, topic)) > 60:
        assert time.monotonic() < give_up_s, len(of_sink(log, topic))
        if turn % 3 == 0:
            killed = Driver(options(topic, topic))
            killed.task(killed.plan(), turn, turn + 1)
        Driver(options(topic, topic)).micro_batch(turn, turn + 1, turn)
        turn += 1
    for name in soon:
        log.cluster.alter_configs({SINKS_TOPIC: {name: "604800000" if name == "segment.ms" else None}})
    Driver(options(topic, topic)).micro_batch(turn, turn + 5, turn)
    assert log.values(topic) == numbers(0, turn + 5)


def of_sink(log, sink_id: str) -> list[object]:
    """Its records in the decision log, and tombstones on such."""
    return [each for each in log.read(SINKS_TOPIC) if sink_id.encode() in each.key]


@only_names
@pytest.mark.parametrize("before", ["a micro-batch", "its rows", "its decision"])
def test_a_decision_log_that_is_made_anew_under_a_run(log, options, before):
    topic = log.topic("out")
    driver = Driver(options(topic, topic))
    for turn in range(3):
        driver.micro_batch(5 * turn, 5 * turn + 5, turn)
    ticket = driver.plan()
    attempted = driver.task(ticket, 15, 20) if before == "its decision" else None
    if before == "its rows":
        ticket = replace(ticket, writers={})  # it has a WRITER to append
    make_anew(log, SINKS_TOPIC, len(log.cluster.topic(SINKS_TOPIC).partitions), DECISION_LOG_CONFIG)
    with pytest.raises(ReplayUnprovable, match=r"decision log .* made anew"):
        if before == "a micro-batch":
            driver.plan()
        elif attempted is None:
            driver.task(ticket, 15, 20)
        else:
            driver.decide(ticket, attempted, 3)


def make_anew(log, topic: str, partition_count: int, config: dict[str, str] | None = None) -> None:
    log.cluster.delete_topics([topic])
    while topic in log.cluster.metadata().topics:
        time.sleep(0.05)
    log.cluster.create_topics({topic: partition_count}, configs={topic: config} if config else None)
    log.cluster.topic(topic, is_known_to_exist=True)
