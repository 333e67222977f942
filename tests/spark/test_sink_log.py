"""The decision log that is not what it was: grown, or trimmed."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from tests.spark.driving import SOURCE, Driver, numbers

from semel.core.sink.journal import SINKS_TOPIC
from semel.core.sink.task import Attempted
from semel.errors import ConfigError, ReplayUnprovable
from semel.record.batch import Record, encode_batch
from semel.record.partitioner import partition_for_key
from semel.spark.batch_sink import plan_write
from semel.spark.commit import decide_batch
from semel.spark.known_sinks import known_sinks, reset_sink
from semel.spark.options import Connection, SinkOptions
from semel.spark.sink_log import (
    DECISION_LOG_CONFIG,
    PARTITION_COUNT,
    decided_ends,
    starting_ends,
    topic_partition_count,
)
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")


@pytest.fixture(autouse=True)
def whole_decision_log(log):
    """What another test has trimmed or filled may be where this one's sink is."""
    if topic_partition_count(log.cluster, SINKS_TOPIC) is not None:
        log.cluster.delete_topics([SINKS_TOPIC])


@pytest.fixture
def kept_whole(log):
    """One that an earlier semel has made: it takes records without keys, and can be trimmed."""
    config = DECISION_LOG_CONFIG | {"cleanup.policy": "delete"}
    log.cluster.create_topics({SINKS_TOPIC: PARTITION_COUNT}, configs={SINKS_TOPIC: config})
    log.cluster.topic(SINKS_TOPIC, is_known_to_exist=True)
    yield
    log.cluster.delete_topics([SINKS_TOPIC])


@pytest.fixture
def driver(log):
    """``driver(topic)``: of the sink of that name; a process of its own, as far as caches go."""

    def make(topic: str) -> Driver:
        return Driver(SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, topic))

    return make


@pytest.fixture
def grow(log):
    """``grow(sink_id)``: the decision log, until the sink's name would be elsewhere; to and from what number."""

    def until_it_moves(sink_id: str) -> tuple[int, int]:
        count = len(log.cluster.topic(SINKS_TOPIC).partitions)
        home = partition_for_key(sink_id.encode(), count)
        grown = next(
            more for more in range(count + 1, 100) if partition_for_key(sink_id.encode(), more) != home
        )
        log.cluster.add_partitions({SINKS_TOPIC: grown})
        return count, grown

    return until_it_moves


def test_a_sink_stays_where_its_records_are_when_the_decision_log_grows(log, driver, grow):
    topic = log.topic("out", 2)
    killed = driver(topic)
    killed.micro_batch(0, 5, 0)
    killed.task(killed.plan(), 5, 12, sent=4)
    grow(topic)
    newer = driver(topic)
    newer.micro_batch(5, 12, 1)
    newer.micro_batch(12, 15, 2)
    assert decided_ends(driver(topic).options.connection, topic)[0] == {SOURCE: 15}
    driver(topic).micro_batch(15, 16, 3)
    assert log.values(topic) == numbers(0, 16)
    reset_sink(log.bootstrap, topic)
    assert known_sinks(log.bootstrap)[topic].decision.source_ends == {}


def test_a_sink_that_is_new_is_where_its_name_says(log, driver, grow):
    topic = log.topic("out")
    driver(topic).micro_batch(0, 2, 0)
    _, count = grow(topic)
    fresh = log.topic("out")
    driver(fresh).micro_batch(0, 2, 0)
    ends = {
        number: log.offset(TopicPartition(SINKS_TOPIC, number), -1)
        for number in log.cluster.topic(SINKS_TOPIC).partitions
    }
    assert ends[partition_for_key(fresh.encode(), count)] > 0


def test_a_process_that_looked_for_a_sink_before_there_was_one_finds_it(log, driver, grow):
    """It went on to look where the sink would have been made, and began a second one of that name there."""
    topic = log.topic("out")
    early = driver(topic)
    with pytest.raises(ConfigError, match="there is no such sink"):
        starting_ends(early.options.connection, topic)
    grow(topic)
    driver(topic).micro_batch(0, 5, 0)
    assert starting_ends(early.options.connection, topic)[0] == {SOURCE: 5}
    early.micro_batch(0, 5, 0)
    early.micro_batch(5, 7, 1)
    assert log.values(topic) == numbers(0, 7)


@pytest.mark.usefixtures("kept_whole")
def test_a_decision_log_that_was_trimmed_is_no_empty_one(log, driver):
    topic = log.topic("out")
    driver(topic).micro_batch(0, 2, 0)
    count = len(log.cluster.topic(SINKS_TOPIC).partitions)
    home = TopicPartition(SINKS_TOPIC, partition_for_key(topic.encode(), count))
    log.cluster.delete_records({home: -1})
    with pytest.raises(ReplayUnprovable, match=r"offsets 0 to \d+ of __semel_sinks-\d+ are gone"):
        driver(topic).plan()
    reset_sink(log.bootstrap, topic)
    driver(topic).micro_batch(2, 5, 1)
    driver(topic).micro_batch(5, 6, 2)
    assert log.values(topic) == numbers(0, 6)


def test_a_process_that_has_read_a_decision_log_gets_over_its_being_made_anew(log, driver):
    """Spark pools its processes: a query that is started again may be planned by the same one."""
    topic = log.topic("out")
    pooled = driver(topic)
    for turn in range(3):
        pooled.micro_batch(2 * turn, 2 * turn + 2, turn)
    count = len(log.cluster.topic(SINKS_TOPIC).partitions)
    log.cluster.delete_topics([SINKS_TOPIC])
    log.cluster.create_topics({SINKS_TOPIC: count}, configs={SINKS_TOPIC: DECISION_LOG_CONFIG})
    with pytest.raises(ReplayUnprovable, match="made anew"):
        pooled.plan()
    pooled.micro_batch(6, 8, 3)
    assert log.values(topic) == numbers(0, 8)


def test_a_decision_log_that_is_made_anew_at_rest_is_a_reset(log, driver):
    """Nobody is left who has read the old one: what was decided is not written again, what was not comes twice."""
    topic = log.topic("out")
    killed = driver(topic)
    killed.micro_batch(0, 5, 0)
    killed.task(killed.plan(), 5, 12, sent=4)
    log.cluster.delete_topics([SINKS_TOPIC])
    driver(topic).micro_batch(5, 12, 1)
    driver(topic).micro_batch(12, 14, 2)
    assert log.values(topic) == sorted(numbers(0, 14) + numbers(5, 9))


@pytest.mark.usefixtures("kept_whole")
def test_a_write_without_a_name_needs_nothing_that_was_decided(log, driver):
    """It could never be done again, and was told to reset a sink that there is not."""
    topic = log.topic("out")
    driver(log.topic("other")).micro_batch(0, 2, 0)
    homes = [TopicPartition(SINKS_TOPIC, number) for number in log.cluster.topic(SINKS_TOPIC).partitions]
    for home in homes:
        log.write(SINKS_TOPIC, [None], partition=home.partition)
    log.cluster.delete_records(dict.fromkeys(homes, -1))
    options = SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, None)
    plan = plan_write(options)
    task = TaskWrite(options, plan.ticket, "write:x/0", None, 1, 0, "x")
    report = task.run([pa.record_batch({"value": pa.array(numbers(0, 3))})])
    decide_batch(options, plan.ticket, [Attempted(report, True)], "", 0, carry=False)
    assert log.values(topic) == numbers(0, 3)


def home_of(log, sink_id: str) -> TopicPartition:
    count = len(log.cluster.topic(SINKS_TOPIC).partitions)
    return TopicPartition(SINKS_TOPIC, partition_for_key(sink_id.encode(), count))


@pytest.mark.usefixtures("kept_whole")
@pytest.mark.parametrize("value", [b"x", b"\xff\xfe", b"[1]", b'{"hello":1}', b"[" * 100_000])
def test_a_record_of_nobody_in_the_decision_log_stops_no_sink(log, driver, caplog, value):
    topic = log.topic("out")
    driver(topic).micro_batch(0, 2, 0)
    home = home_of(log, topic)
    batch = encode_batch([Record(0, 0, b"k", value), Record(0, 0, None, value)])
    assert not log.cluster.produce({home: batch})[home].error_code
    driver(topic).micro_batch(2, 5, 1)
    assert log.values(topic) == numbers(0, 5)
    assert known_sinks(log.bootstrap)[topic].decision.source_ends == {SOURCE: 5}
    assert f"records of no sink, the first at {home}@" in caplog.text  # other sinks share the partition


@pytest.mark.usefixtures("kept_whole")
@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b'["decision","s"]', b"x", "Expecting value"),
        (None, b'{"v":3,"any":"thing"}', "a record of format 3"),
        (b'["decision","s",1]', b"\x02binary", "can't decode|Expecting value"),
        (
            b'["decision","s"]',
            b'{"v":1,"kind":"decision","sink_id":"s","sink_epoch":1}',
            "its fields are not",
        ),
        (b'["fence","s"]', b'{"v":1,"kind":"fence","sink_id":1,"sink_epoch":1}', "its sink id is no text"),
    ],
)
def test_a_record_that_may_be_a_decision_is_never_passed_over(log, driver, key, value, why):
    topic = log.topic("out")
    driver(topic).micro_batch(0, 2, 0)
    home = home_of(log, topic)
    at = log.cluster.produce({home: encode_batch([Record(0, 0, key, value)])})[home].base_offset
    for ask in (driver(topic).plan, lambda: known_sinks(log.bootstrap)):
        with pytest.raises(
            ReplayUnprovable, match=rf"(?s)the record at {home}@{at} cannot be read: .*({why})"
        ):
            ask()


def test_a_decision_log_that_is_not_kept_for_ever_is_refused(log, driver):
    topic = log.topic("out")
    driver(topic).micro_batch(0, 2, 0)
    log.cluster.alter_configs({SINKS_TOPIC: {"retention.ms": "604800000", "retention.bytes": "1000"}})
    try:
        with pytest.raises(
            ReplayUnprovable,
            match=r"\(retention.ms=604800000 and retention.bytes=1000\).*semel topic alter-config __semel_sinks "
            r"-c retention.ms=-1 -c retention.bytes=-1`",
        ):
            driver(topic).plan()
    finally:
        log.cluster.alter_configs({SINKS_TOPIC: {"retention.ms": "-1", "retention.bytes": "-1"}})
    driver(topic).micro_batch(2, 3, 1)
    assert log.values(topic) == numbers(0, 3)
