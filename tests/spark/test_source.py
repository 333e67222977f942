"""The streaming source's own calls, in Spark's order, on a real server and without a JVM."""

from __future__ import annotations

import logging
import socket
import time

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import semel
from semel.copy.plan import JOURNAL_PREFIX
from semel.core.sink.journal import SINKS_TOPIC
from semel.errors import ConfigError, ConnectionLost, DataLoss
from semel.spark import source_offsets
from semel.spark.options import Connection, source_options
from semel.spark.sink_log import SinkLog, create_topic
from semel.spark.source import COLUMNS, SemelReader, SemelStreamReader
from semel.types import EARLIEST_TIMESTAMP, TopicPartition


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


class Query:
    """Spark's side of a streaming source: it keeps the offset, and asks for the next micro-batch."""

    def __init__(self, reader: SemelStreamReader) -> None:
        self.reader = reader
        self.offset = reader.initialOffset()

    def micro_batch(self, limit=None) -> list[bytes] | None:
        """The rows of the next one; ``None`` when the source says that there is nothing new."""
        end = self.reader.latestOffset(self.offset, limit or self.reader.getDefaultReadLimit())
        if end == self.offset:
            return None
        self.pieces = self.reader.partitions(self.offset, end)
        rows = [
            value
            for piece in self.pieces
            for batch in self.reader.batches(piece.value)
            for value in batch.column("value").to_pylist()
        ]
        self.offset = end
        self.reader.commit(end)
        return rows


@pytest.fixture
def query(log):
    """``query(subscribe=…, …)``: from the earliest offsets."""

    def start(**options: str) -> Query:
        given = {"kafka.bootstrap.servers": log.bootstrap, "startingOffsets": "earliest"} | options
        return Query(SemelStreamReader(source_options(given, streaming=True), tuple(COLUMNS)))

    return start


def wait_until(condition, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def made_anew(log, topic: str, values: list[bytes]) -> None:
    log.cluster.delete_topics([topic])
    log.cluster.create_topics({topic: 1})
    log.cluster.topic(topic)
    log.write(topic, values)


def test_micro_batches_follow_each_other(log, query):
    topic = log.topic("t", 2)
    log.write(topic, numbers(0, 3))
    reading = query(subscribe=topic)
    assert reading.micro_batch() == numbers(0, 3)
    assert reading.micro_batch() is None
    log.write(topic, numbers(3, 5), partition=1)
    assert reading.micro_batch() == numbers(3, 5)


def test_the_default_limit_is_what_the_options_say(query, log):
    topic = log.topic("t")
    limits = [
        query(subscribe=topic, **options).reader.getDefaultReadLimit()
        for options in ({}, {"maxOffsetsPerTrigger": "9"}, {"minOffsetsPerTrigger": "5"})
    ]
    assert limits == [ReadAllAvailable(), ReadMaxRows(9), ReadMinRows(5)]


def test_too_few_rows_wait_but_not_for_the_first_micro_batch_nor_for_all_available(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 1))
    reading = query(subscribe=topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    assert reading.micro_batch() == numbers(0, 1)
    log.write(topic, numbers(1, 4))
    assert reading.micro_batch() is None
    assert reading.micro_batch(ReadAllAvailable()) == numbers(1, 4)
    log.write(topic, numbers(4, 9))
    assert reading.micro_batch() == numbers(4, 9)


def test_after_the_delay_few_rows_are_enough(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 1))
    reading = query(subscribe=topic, minOffsetsPerTrigger="5", maxTriggerDelay="1ms")
    reading.micro_batch()
    log.write(topic, numbers(1, 2))
    wait_until(lambda: reading.micro_batch() == numbers(1, 2), "the row")


def test_a_maximum_wins_over_a_minimum_once_there_is_enough(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 20))
    reading = query(subscribe=topic, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8", maxTriggerDelay="1h")
    assert [len(reading.micro_batch()) for _ in range(2)] == [8, 8]
    assert reading.micro_batch() is None  # four are left


def test_no_task_gets_more_than_the_records_of_a_partition(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 25))
    reading = query(subscribe=topic, maxRecordsPerPartition="10")
    assert reading.micro_batch() == numbers(0, 25)
    assert [piece.value.read_end - piece.value.read_from for piece in reading.pieces] == [8, 8, 9]


def test_a_new_topic_of_the_pattern_is_read_from_its_beginning(log, query):
    first = log.topic("p")
    log.write(first, numbers(0, 2))
    reading = query(subscribePattern=f"{first}.*", startingOffsets="latest")
    assert reading.micro_batch() is None
    log.cluster.create_topics({f"{first}-too": 1})
    log.cluster.topic(f"{first}-too")
    log.write(f"{first}-too", numbers(2, 4))
    assert reading.micro_batch() == numbers(2, 4)


def test_no_pattern_catches_an_internal_topic_but_its_name_does(log, query):
    topic = log.topic("p")
    SinkLog(Connection(log.bootstrap), f"sink-of-{topic}").take_over()
    journal = f"{JOURNAL_PREFIX}{topic}"
    create_topic(log.cluster, journal, 1)
    assert not {SINKS_TOPIC, journal} & query(subscribePattern=".*").offset.keys()
    assert topic in query(subscribePattern=".*").offset
    assert list(query(subscribePattern=SINKS_TOPIC).offset) == [SINKS_TOPIC]
    assert list(query(subscribe=SINKS_TOPIC).offset) == [SINKS_TOPIC]
    metadata = log.cluster.metadata().topics
    assert {name for name, found in metadata.items() if found.is_internal} >= {SINKS_TOPIC, journal}
    assert not metadata[topic].is_internal


def test_who_waits_for_a_server_that_is_down_is_told_soon_and_then_why(caplog, monkeypatch):
    monkeypatch.setattr(source_offsets, "_SILENT_S", 0.2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        given = {"kafka.bootstrap.servers": address, "subscribe": "t", "kafka.request.timeout.ms": "1000"}
        reader = SemelStreamReader(source_options(given, streaming=True), tuple(COLUMNS))
        with (
            caplog.at_level(logging.WARNING, "semel.spark"),
            pytest.raises(ConnectionLost, match=f"nobody answered at {address}: .*Connection refused"),
        ):
            reader.initialOffset()
    assert f"nobody has answered at {address} so far; trying on for 4 s" in caplog.text


def test_the_group_is_told_after_each_micro_batch(log, query):
    topic = log.topic("t")
    reading = query(subscribe=topic, commitGroup=f"g-{topic}")
    for end in (3, 7):
        log.write(topic, numbers(0, end - log.offset(TopicPartition(topic, 0), -1)))
        reading.micro_batch()
        assert log.cluster.committed_offsets(f"g-{topic}")[TopicPartition(topic, 0)].offset == end


def test_retention_that_was_faster_is_a_loss_with_its_offsets(log, query):
    topic = log.topic("t", **{"segment.bytes": "4096", "retention.bytes": "8192"})
    options = {"subscribe": topic}
    strict, lenient = query(**options), query(**options, failOnDataLoss="false")
    for first in range(0, 400, 10):
        log.write(topic, [number.ljust(100, b".") for number in numbers(first, first + 10)])
    tp = TopicPartition(topic, 0)
    # Until it has settled: the sizes do not change any more.
    wait_until(lambda: log.offset(tp, EARLIEST_TIMESTAMP) > 300, "retention")
    log_start = log.offset(tp, EARLIEST_TIMESTAMP)
    with pytest.raises(
        DataLoss, match=rf"offsets 0 to {log_start - 1} of topic '{topic}', partition 0 are gone"
    ):
        strict.micro_batch()
    assert [value[:4] for value in lenient.micro_batch()] == numbers(log_start, 400)
    (piece,) = lenient.pieces
    assert (piece.value.source_range.batch_from, piece.value.read_from) == (0, log_start)


def test_a_topic_made_anew_is_a_loss_and_else_read_from_its_beginning(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 9))
    strict, lenient = query(subscribe=topic), query(subscribe=topic, failOnDataLoss="false")
    assert strict.micro_batch() == lenient.micro_batch() == numbers(0, 9)
    made_anew(log, topic, numbers(20, 23))
    with pytest.raises(DataLoss, match=r"all offsets from 9 on .* deleted and made anew"):
        strict.micro_batch()
    assert lenient.micro_batch() == numbers(20, 23)
    assert lenient.micro_batch() is None


def test_a_topic_that_is_gone_is_named_and_else_passed_over(log, query):
    gone, stays = log.topic("gone"), log.topic("stays")
    log.write(gone, numbers(0, 2))
    both = f"{gone},{stays}"
    strict, lenient = query(subscribe=both), query(subscribe=both, failOnDataLoss="false")
    assert strict.micro_batch() == lenient.micro_batch() == numbers(0, 2)
    log.cluster.delete_topics([gone])
    log.write(stays, numbers(2, 4))
    with pytest.raises(ConfigError, match=f"there is no topic {gone}"):
        strict.micro_batch()
    assert lenient.micro_batch() == numbers(2, 4)


def test_available_now_stops_at_what_was_there(log, query):
    topic = log.topic("t")
    log.write(topic, numbers(0, 10))
    reading = query(subscribe=topic, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    reading.reader.prepareForTriggerAvailableNow()
    log.write(topic, numbers(10, 12))
    assert [reading.micro_batch() for _ in range(3)] == [numbers(0, 6), numbers(6, 10), None]


def test_fewer_columns(log):
    topic = log.topic("t")
    log.write(topic, numbers(0, 2))
    options = source_options(
        {"kafka.bootstrap.servers": log.bootstrap, "subscribe": topic, "startingOffsets": "earliest"},
        streaming=True,
    )
    reader = SemelStreamReader(options, ("offset", "value"))
    (piece,) = reader.partitions(reader.initialOffset(), {topic: {"0": 2}})
    (batch,) = reader.batches(piece.value)
    assert batch.schema.names == ["offset", "value"]


@pytest.fixture
def batch(log):
    """``batch(subscribe=…, …)``: the values of a batch read, by Spark's calls."""

    def read(**options: str) -> list[bytes]:
        given = {"kafka.bootstrap.servers": log.bootstrap} | options
        reader = SemelReader(source_options(given, streaming=False), tuple(COLUMNS))
        pieces = reader.partitions() or [InputPartition(None)]  # Spark wants a task, also of nothing
        tables = [table for piece in pieces for table in reader.read(piece)]
        return [value for table in tables for value in table.column("value").to_pylist()]

    return read


def offsets(topic: str, offset: int) -> str:
    return f'{{"{topic}": {{"0": {offset}}}}}'


def test_a_batch_read_without_ranges_has_no_rows(log, batch):
    empty, topic = log.topic("empty"), log.topic("t")
    log.write(topic, numbers(0, 3), timestamp_ms=5_000)
    assert batch(subscribe=empty) == []
    assert batch(subscribePattern="no-topic-has-such-a-name") == []
    assert batch(assign=f'{{"{empty}": [0]}}', minPartitions="4") == []
    assert batch(subscribe=topic, startingOffsets=offsets(topic, 2), endingOffsets=offsets(topic, 2)) == []
    assert batch(subscribe=topic, startingOffsets=offsets(topic, 3)) == []
    assert batch(subscribe=topic, startingTimestamp="1", endingTimestamp="2") == []
    assert batch(subscribe=f"{empty},{topic}") == numbers(0, 3)


def test_a_micro_batch_without_ranges_has_no_rows(log, query):
    reading = query(subscribe=log.topic("t"), commitGroup="of-nothing")
    reading.reader.prepareForTriggerAvailableNow()
    assert reading.micro_batch() is None
    assert list(reading.reader.read(InputPartition(None))) == []
    nothing = query(subscribePattern="no-topic-has-such-a-name", commitGroup="of-nothing")
    assert nothing.micro_batch() is None
    assert nothing.reader.partitions({}, {}) == []
    nothing.reader.commit({})


def test_an_ending_offset_behind_the_logs_end_is_refused_at_once(log, batch):
    topic = log.topic("t")
    log.write(topic, numbers(0, 3))
    far = {"subscribe": topic, "endingOffsets": offsets(topic, 100)}
    with pytest.raises(
        DataLoss, match=rf"offsets 3 to 99 of topic '{topic}'.*endingOffsets, or .* reads what"
    ):
        batch(**far)
    assert batch(**far, failOnDataLoss="false") == numbers(0, 3)
    assert batch(
        **far, failOnDataLoss="false", startingOffsets=offsets(topic, 1), minPartitions="2"
    ) == numbers(1, 3)
    with pytest.raises(DataLoss, match=r"offsets 3 to 49 .*startingOffsets"):
        batch(**far, startingOffsets=offsets(topic, 50))


def test_a_micro_batch_that_was_planned_beyond_the_logs_end(log, query):
    """As a checkpoint has it whose log was put back from an older copy."""
    topic = log.topic("t")
    log.write(topic, numbers(0, 3))
    start, end = {topic: {"0": 1}}, {topic: {"0": 100}}
    with pytest.raises(DataLoss, match="a micro-batch in the checkpoint"):
        query(subscribe=topic).reader.partitions(start, end)
    (piece,) = query(subscribe=topic, failOnDataLoss="false").reader.partitions(start, end)
    assert (piece.value.read_from, piece.value.read_end) == (1, 3)
    assert piece.value.source_range.batch_end == 100


def test_an_ending_offset_in_an_open_transaction_is_waited_for(log, query, batch):
    """It is in the log, and its rows come once it is known whether they count."""
    topic = log.topic("t")
    with semel.Producer(log.bootstrap, transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"row").result()
        pieces = query(subscribe=topic).reader.partitions({topic: {"0": 0}}, {topic: {"0": 1}})
        assert [piece.value.read_end for piece in pieces] == [1]
    assert batch(subscribe=topic, endingOffsets=offsets(topic, 1)) == [b"row"]
