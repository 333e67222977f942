"""A decision log that is compacted while sinks live on it: by a real cleaner, with segments that are full soon."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter

import pytest
from tests.spark.driving import SOURCE, Driver, numbers

from semel.core.sink import journal
from semel.core.sink.journal import SINKS_TOPIC, Fence
from semel.core.sink.litter import SWEPT_AT
from semel.core.sink.refusal import NAMED_PREFIX
from semel.errors import ReplayUnprovable, SinkFenced
from semel.record.batch import Record
from semel.record.partitioner import partition_for_key
from semel.spark import sink_log
from semel.spark.known_sinks import known_sinks, reset_sink
from semel.spark.options import Connection, SinkOptions
from semel.spark.sink_log import (
    DECISION_LOG_CONFIG,
    JournalReading,
    decided_ends,
    policy_of,
    topic_partition_count,
)
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")
SOON = {"segment.bytes": "8000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
WITHIN_S = 30.0


@pytest.fixture(autouse=True)
def decision_log(log):
    """``decision_log(**configs)``: made anew, and compacted soon."""

    def make(**configs: str) -> None:
        if topic_partition_count(log.cluster, SINKS_TOPIC) is not None:
            log.cluster.delete_topics([SINKS_TOPIC])
        log.cluster.create_topics(
            {SINKS_TOPIC: 8}, configs={SINKS_TOPIC: DECISION_LOG_CONFIG | SOON | configs}
        )
        log.cluster.topic(SINKS_TOPIC, is_known_to_exist=True)

    make()
    yield make
    log.cluster.delete_topics([SINKS_TOPIC])


@pytest.fixture
def driver(log):
    """``driver(topic)``: of the sink of that name; a process of its own, as far as caches go."""

    def make(topic: str) -> Driver:
        return Driver(SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, topic))

    return make


def home_of(sink_id: str) -> TopicPartition:
    return TopicPartition(SINKS_TOPIC, partition_for_key(sink_id.encode(), 8))


def left_of(log, sink_id: str) -> list[Record]:
    """The sink's records and tombstones that can still be read."""
    return [each for each in log.read(SINKS_TOPIC) if json.loads(each.key)[1] == sink_id]


def kinds_of(log, sink_id: str) -> Counter[str]:
    return Counter(json.loads(each.key)[0] for each in left_of(log, sink_id) if each.value is not None)


def until_left(log, sink_id: str, records_max: int) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while len(left_of(log, sink_id)) > records_max:
        assert time.monotonic() < give_up_s, Counter(
            json.loads(each.key)[0] for each in left_of(log, sink_id)
        )
        time.sleep(0.05)


@pytest.mark.thorough
def test_it_stays_small_however_many_micro_batches_are_decided(log, driver):
    topic = log.topic("out", 2)
    one = driver(topic)
    for turn in range(4 * SWEPT_AT):
        one.micro_batch(turn, turn + 1, turn)
    until_left(log, topic, 3 * SWEPT_AT)
    assert log.offset(home_of(topic), -1) > 7 * SWEPT_AT
    assert known_sinks(log.bootstrap)[topic].decision.source_ends == {SOURCE: 4 * SWEPT_AT}
    one.micro_batch(4 * SWEPT_AT, 4 * SWEPT_AT + 5, 4 * SWEPT_AT)
    assert log.values(topic) == numbers(0, 4 * SWEPT_AT + 5)


@pytest.mark.thorough
def test_it_stays_small_however_many_drivers_there_were(log, driver):
    """Each leaves FENCE, BEGIN and DECISION; half of them are killed amid their rows, and leave that, too."""
    topic = log.topic("out", 2)
    for turn in range(40):
        if turn % 2:
            killed = driver(topic)
            killed.task(killed.plan(), 5 * turn, 5 * turn + 5, sent=turn % 5)
        driver(topic).micro_batch(5 * turn, 5 * turn + 5, turn)
    until_left(log, topic, 60)
    assert kinds_of(log, topic)["begin"] < 20
    assert log.values(topic) == numbers(0, 200)
    assert decided_ends(driver(topic).options.connection, topic)[0] == {SOURCE: 200}


@pytest.mark.thorough
def test_who_has_read_it_before_reads_on_behind_what_is_gone(log, driver):
    """A driver that was overtaken is told so, and one that takes over again goes on from the newest decision."""
    topic = log.topic("out")
    early = driver(topic)
    early.micro_batch(0, 5, 0)
    ticket = early.plan()
    for turn in range(40):
        driver(topic).micro_batch(5 + turn, 6 + turn, 1 + turn)
    until_left(log, topic, 60)
    with pytest.raises(SinkFenced):
        early.task(ticket, 5, 8)
    with pytest.raises(SinkFenced):
        early.decide(ticket, early.task(ticket, 5, 5), 1)
    with pytest.raises(SinkFenced, match="was taken over by"):
        early.plan()
    early.micro_batch(45, 50, 41)
    assert log.values(topic) == numbers(0, 50)


@pytest.mark.slow
def test_a_sink_that_was_reset_begins_as_if_it_were_new(log, driver):
    topic = log.topic("out")
    for turn in range(30):
        driver(topic).micro_batch(turn, turn + 1, turn)
    reset_sink(log.bootstrap, topic)
    for turn in range(30):
        driver(topic).micro_batch(100 + turn, 101 + turn, turn)
    until_left(log, topic, 60)
    assert log.values(topic) == numbers(0, 30) + numbers(100, 130)


def test_who_reads_where_something_went_reads_to_what_took_it(log, driver):
    """Else neither the FENCE that has overtaken him would be there, nor the one that has overtaken that."""
    topic = log.topic("out")
    driver(topic).micro_batch(0, 1, 0)
    end = log.offset(home_of(topic), -1)
    whole = JournalReading(log.cluster, home_of(topic), 0, end - 1)
    assert len(list(whole)) == whole.end_offset == end - 1
    for turn in range(1, 30):
        driver(topic).micro_batch(turn, turn + 1, turn)
    until_left(log, topic, 60)
    left = JournalReading(log.cluster, home_of(topic), 0, end)
    fences = [entry.record for entry in left if isinstance(entry.record, Fence)]
    assert left.end_offset == log.offset(home_of(topic), -1)
    assert fences[-1].sink_epoch == 29


def test_what_lies_in_front_of_the_newest_begin_may_be_trimmed(log, driver, decision_log):
    """It carries all that was known then; what lies behind it is needed."""
    decision_log(**{"cleanup.policy": "compact,delete", "segment.bytes": "1000000"})
    topic = log.topic("out")
    killed = driver(topic)
    killed.micro_batch(0, 5, 0)
    killed.task(killed.plan(), 5, 12, sent=4)
    begun = driver(topic)
    begun.task(begun.plan(), 5, 12, sent=6)
    at = max(each.offset for each in left_of(log, topic) if each.value and b'"begin"' in each.key)
    log.cluster.delete_records({home_of(topic): at})
    driver(topic).micro_batch(5, 12, 1)
    assert log.values(topic) == numbers(0, 12)
    at = max(each.offset for each in left_of(log, topic) if each.value and b'"begin"' in each.key)
    log.cluster.delete_records({home_of(topic): at + 1})
    with pytest.raises(ReplayUnprovable, match="are gone"):
        driver(topic).plan()
    reset_sink(log.bootstrap, topic)
    driver(topic).micro_batch(12, 14, 2)
    assert log.values(topic) == numbers(0, 14)


@pytest.mark.thorough
def test_an_older_one_is_kept_whole_as_it_was(log, driver, decision_log):
    """Nobody switches it in silence, and nobody puts tombstones there that would take nothing."""
    decision_log(**{"cleanup.policy": "delete"})
    topic = log.topic("out")
    for turn in range(30):
        driver(topic).micro_batch(turn, turn + 1, turn)
    assert policy_of(log.cluster.describe_configs([SINKS_TOPIC])[SINKS_TOPIC]) == "delete"
    assert kinds_of(log, topic)["decision"] == 30
    assert all(each.value is not None for each in left_of(log, topic))
    assert log.values(topic) == numbers(0, 30)


def as_an_older_semel(record) -> tuple[bytes, bytes]:
    body = json.loads(journal.encode(record)[1])
    body = {name: told for name, told in body.items() if name not in ("carried", "sequence")} | {"v": 1}
    return json.dumps([body["kind"], body["sink_id"]]).encode(), json.dumps(body).encode()


def test_what_an_older_semel_has_written_is_not_believed_once_it_is_compacted(
    log, driver, decision_log, monkeypatch
):
    decision_log(**{"cleanup.policy": "delete"})
    topic, rested = log.topic("out"), log.topic("rested")
    with monkeypatch.context() as older:
        older.setattr(sink_log, "encode", as_an_older_semel)
        for each in (topic, rested):
            driver(each).micro_batch(0, 5, 0)
    log.cluster.alter_configs({SINKS_TOPIC: {"cleanup.policy": "compact"}})
    said = r"is compacted.*alter-config __semel_sinks -c cleanup.policy=delete"
    fences = kinds_of(log, topic)["fence"]
    with pytest.raises(ReplayUnprovable, match=said):
        driver(topic).plan()
    assert kinds_of(log, topic)["fence"] == fences, "nobody was disturbed"
    log.cluster.alter_configs({SINKS_TOPIC: {"cleanup.policy": "delete"}})
    driver(topic).micro_batch(5, 7, 1)
    log.cluster.alter_configs({SINKS_TOPIC: {"cleanup.policy": "compact"}})
    driver(topic).micro_batch(7, 9, 2)
    assert log.values(topic) == numbers(0, 9)
    with pytest.raises(ReplayUnprovable, match=said):
        driver(rested).plan()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_query_lives_on_it(log, stream, run_to_end, tmp_path):
    """In two splits, so that each micro-batch leaves CUTs; started again, replayed, and begun with a new checkpoint."""
    source, sink = log.topic("in", 2), log.topic("out", 2)
    frame = stream(source, maxOffsetsPerTrigger="16", minPartitions="4").selectExpr("value")
    for turn in range(3):
        log.write(source, numbers(100 * turn, 100 * turn + 50))
        log.write(source, numbers(100 * turn + 50, 100 * turn + 100), partition=1)
        run_to_end(frame, sink, tmp_path / "ck", sink)
        if turn == 1:
            for entry in (tmp_path / "ck" / "commits").glob("*"):
                entry.unlink()
    until_left(log, sink, 2 * SWEPT_AT)
    assert kinds_of(log, sink)["cut"] <= SWEPT_AT
    log.write(source, numbers(300, 320))
    frame = stream(source, startingOffsets=f"sink:{sink}", minPartitions="4").selectExpr("value")
    run_to_end(frame, sink, tmp_path / "anew", sink)
    assert log.values(sink) == numbers(0, 320)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_named_writes_live_on_it(log, spark):
    topic = log.topic("out")
    frame = spark.createDataFrame([(f"{number:04}",) for number in range(3)], "value string").repartition(3)

    def write(version: int) -> None:
        writer = frame.write.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer.option("topic", topic).option("txnAppId", topic).option("txnVersion", version).mode(
            "append"
        ).save()

    for version in range(25):
        write(version)
    until_left(log, f"{NAMED_PREFIX}{topic}", 60)
    for version in (24, 23, 25):
        write(version)
    assert len(log.values(topic)) == 3 * 26
