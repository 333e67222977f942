"""A source topic that was deleted and made anew is another topic, also where it is longer than before.

The source's own calls, in Spark's order, on semel and on Apache Kafka.
"""

from __future__ import annotations

import logging
import time

import pytest

from semel.client.blocking import Cluster
from semel.errors import BrokerError, DataLoss
from semel.spark.offsets import epochs_from_json, from_json, to_json
from semel.spark.options import source_options
from semel.spark.source import COLUMNS, SemelReader, SemelStreamReader
from semel.types import LATEST_TIMESTAMP, TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def any_log(request, log_of):
    if request.param == "semel":
        yield request.getfixturevalue("log")
        return
    kafka = request.getfixturevalue("apache_kafka")
    with Cluster(kafka.bootstrap) as cluster:
        yield log_of(kafka.bootstrap, cluster)


def make_anew(log, topic: str, values: list[bytes], partitions: int = 1) -> None:
    """Apache Kafka deletes once it has answered: until then the name is taken, or still leads to the old one."""
    before = log.cluster.topic(topic).topic_id
    log.cluster.delete_topics([topic])
    deadline = time.monotonic() + 30
    while True:
        try:
            log.cluster.create_topics({topic: partitions})
            break
        except BrokerError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    while log.cluster.topic(topic, is_known_to_exist=True).topic_id == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if values:
        log.write(topic, values)
        while log.offset(TopicPartition(topic, 0), LATEST_TIMESTAMP) < len(values):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def until_gone(log, topic: str) -> None:
    deadline = time.monotonic() + 30
    while topic in log.cluster.metadata(None).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Query:
    """Spark's side of a streaming source: what is planned stands in the checkpoint, and is run again."""

    def __init__(self, log, topic: str, **options: str) -> None:
        chosen = {} if {"subscribePattern", "assign"} & options.keys() else {"subscribe": topic}
        given = {"kafka.bootstrap.servers": log.bootstrap, "startingOffsets": "earliest"} | chosen | options
        self.options = source_options(given, streaming=True)
        self.reader = SemelStreamReader(self.options, tuple(COLUMNS))
        self.offset = self.reader.initialOffset()

    def restart(self) -> None:
        self.reader = SemelStreamReader(self.options, tuple(COLUMNS))

    def plan(self):
        return self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())

    def ranges(self, end) -> list:
        return [piece.value for piece in self.reader.partitions(self.offset, end)]

    def read(self, ranges) -> list[bytes]:
        return [
            value
            for piece in ranges
            for batch in self.reader.batches(piece)
            for value in batch.column("value").to_pylist()
        ]

    def micro_batch(self) -> list[bytes] | None:
        """The rows of the next one; ``None`` when the source says that there is nothing new."""
        end = self.plan()
        if end == self.offset:
            return None
        rows = self.read(self.ranges(end))
        self.offset = end
        self.reader.commit(end)
        return rows


LENGTHS = {"longer": 26, "as long": 10, "shorter": 4, "empty": 0}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_it_is_a_loss(any_log, length):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    query = Query(any_log, topic)
    assert query.micro_batch() == numbers(0, 10)
    make_anew(any_log, topic, numbers(100, 100 + length))
    query.restart()
    with pytest.raises(
        DataLoss, match=f"topic '{topic}', partition 0 are gone: the topic was deleted and made anew"
    ):
        query.micro_batch()


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_where_losses_are_accepted_all_of_it_is_read_and_that_is_said(any_log, length, caplog):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    query = Query(any_log, topic, failOnDataLoss="false")
    assert query.micro_batch() == numbers(0, 10)
    make_anew(any_log, topic, numbers(100, 100 + length))
    with caplog.at_level(logging.WARNING, "semel.spark"):
        assert query.micro_batch() == numbers(100, 100 + length)
    assert f"topic '{topic}' was deleted and made anew" in caplog.text
    assert query.micro_batch() is None
    any_log.write(topic, numbers(200, 203))
    assert query.micro_batch() == numbers(200, 203)


def test_with_fewer_and_with_more_partitions(any_log):
    topic = any_log.topic("t", 3)
    for number in range(3):
        any_log.write(topic, numbers(10 * number, 10 * number + 5), partition=number)
    query = Query(any_log, topic, failOnDataLoss="false", maxOffsetsPerTrigger="100")
    assert sorted(query.micro_batch()) == numbers(0, 5) + numbers(10, 15) + numbers(20, 25)
    make_anew(any_log, topic, numbers(100, 107), partitions=1)
    assert query.micro_batch() == numbers(100, 107)
    assert from_json(query.offset).keys() == {TopicPartition(topic, 0)}
    make_anew(any_log, topic, numbers(200, 203), partitions=2)
    any_log.write(topic, numbers(203, 206), partition=1)
    assert query.micro_batch() == numbers(200, 206)
    assert query.micro_batch() is None


def test_a_limit_holds_in_the_new_topic_too(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    query = Query(any_log, topic, failOnDataLoss="false", maxOffsetsPerTrigger="10")
    query.micro_batch()
    make_anew(any_log, topic, numbers(100, 125))
    assert [query.micro_batch() for _ in range(4)] == [
        numbers(100, 110),
        numbers(110, 120),
        numbers(120, 125),
        None,
    ]


def test_made_anew_between_two_questions_for_the_latest_offset(any_log):
    """The end of the older topic stands in the checkpoint by then: its rows cannot be read any more."""
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    strict, lenient = Query(any_log, topic), Query(any_log, topic, failOnDataLoss="false")
    ends = [query.plan() for query in (strict, lenient)]
    make_anew(any_log, topic, numbers(100, 126))
    with pytest.raises(DataLoss, match="deleted and made anew"):
        strict.ranges(ends[0])
    strict.offset = ends[0]
    with pytest.raises(DataLoss, match="deleted and made anew"):
        strict.plan()
    assert lenient.read(lenient.ranges(ends[1])) == []
    lenient.offset = ends[1]
    assert lenient.micro_batch() == numbers(100, 126)


def test_a_task_reads_no_row_of_a_topic_that_came_after_it_was_planned(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    strict, lenient = Query(any_log, topic), Query(any_log, topic, failOnDataLoss="false")
    ranges = [query.ranges(query.plan()) for query in (strict, lenient)]
    make_anew(any_log, topic, numbers(100, 126))
    with pytest.raises(DataLoss, match=r"offsets 0 to 9 .* deleted and made anew"):
        strict.read(ranges[0])
    assert lenient.read(ranges[1]) == []


def test_nor_does_a_task_that_reads_when_it_happens(any_log):
    topic = any_log.topic("t")
    for first in range(0, 400, 100):
        any_log.write(topic, [number.ljust(1000) for number in numbers(first, first + 100)])
    query = Query(any_log, topic, **{"kafka.max.partition.fetch.bytes": "1"})
    (piece,) = query.ranges(query.plan())
    batches = query.reader.batches(piece)
    assert next(batches).num_rows == 100
    make_anew(any_log, topic, numbers(1000, 1500))
    values = []
    with pytest.raises(DataLoss, match="deleted and made anew"):
        for batch in batches:
            values += batch.column("value").to_pylist()
    assert len(values) <= 100  # the fetch that was on its way
    assert all(value[:4] in numbers(100, 200) for value in values)


def test_a_batch_read_that_was_planned_before(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    given = {"kafka.bootstrap.servers": any_log.bootstrap, "subscribe": topic}
    reader = SemelReader(source_options(given, streaming=False), tuple(COLUMNS))
    pieces = reader.partitions()
    make_anew(any_log, topic, numbers(100, 126))
    with pytest.raises(DataLoss, match="deleted and made anew"):
        list(reader.batches(pieces[0].value))


def test_however_the_partitions_were_chosen(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    queries = [
        Query(any_log, topic, subscribePattern=f"{topic}.*"),
        Query(any_log, topic, assign=f'{{"{topic}": [0]}}'),
    ]
    for query in queries:
        assert query.micro_batch() == numbers(0, 10)
    make_anew(any_log, topic, numbers(100, 126))
    for query in queries:
        with pytest.raises(DataLoss, match="deleted and made anew"):
            query.micro_batch()


def test_all_that_was_there_is_of_the_topic_that_was_there(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    query = Query(any_log, topic)
    query.micro_batch()
    make_anew(any_log, topic, numbers(100, 126))
    query.reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match="deleted and made anew"):
        query.micro_batch()


def test_a_checkpoint_without_ids_goes_on_and_gets_them_with_its_next_rows(any_log):
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 10))
    query = Query(any_log, topic)
    query.offset = {topic: {"0": 4}}
    assert query.read(query.ranges({topic: {"0": 7}})) == numbers(4, 7)
    assert query.micro_batch() == numbers(4, 10)
    topic_id = str(any_log.cluster.topic(topic).topic_id)
    assert query.offset == to_json(
        {TopicPartition(topic, 0): 10}, {topic: topic_id}, epochs_from_json(query.offset)
    )
    query.offset = {topic: {"0": 10}}
    assert query.micro_batch() is None  # ids alone are no reason for one


def test_a_topic_that_came_with_the_planned_micro_batch_and_is_gone_is_a_loss(any_log):
    """Its rows were left out without a word, also from failOnDataLoss=true: only the planned end spoke of it."""
    topic = any_log.topic("t")
    any_log.write(topic, numbers(0, 3))
    pattern = {"subscribePattern": f"{topic}.*"}
    strict, lenient = (
        Query(any_log, topic, **pattern),
        Query(any_log, topic, failOnDataLoss="false", **pattern),
    )
    late = f"{topic}-late"
    any_log.cluster.create_topics({late: 1})
    any_log.cluster.topic(late, is_known_to_exist=True)
    any_log.write(late, numbers(10, 15))
    ends = [query.plan() for query in (strict, lenient)]
    any_log.cluster.delete_topics([late])
    until_gone(any_log, late)
    strict.restart()
    with pytest.raises(DataLoss, match=f"topic '{late}', partition 0 are gone"):
        strict.ranges(ends[0])
    ranges = lenient.ranges(ends[1])
    assert lenient.read(ranges) == numbers(0, 3)
    assert [piece.source_range.is_gone for piece in ranges] == [False, True]
