"""The consumer of assigned partitions."""

from __future__ import annotations

import pytest

import semel
from semel.errors import BrokerError, ConfigError, DataLoss, ErrorCode, UnknownTopic


def test_a_plain_pair_names_a_partition(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("numbers", value="1").result(10)
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign({("numbers", 0): "earliest"})  # type: ignore[dict-item]
        assert [record.value for record in consumer.poll(5)] == [b"1"]
        assert consumer.assignment() == [semel.TopicPartition("numbers", 0)]


def test_a_start_that_is_no_place_in_a_log_is_refused_by_its_name(semel_server: semel.LocalLog) -> None:
    with (
        semel.Consumer(semel_server.bootstrap) as consumer,
        pytest.raises(ConfigError, match="'begin' is no place to start numbers-0 at"),
    ):
        consumer.assign({semel.TopicPartition("numbers", 0): "begin"})  # type: ignore[dict-item]


def test_an_offset_that_is_not_written_yet_is_not_called_gone(semel_server: semel.LocalLog) -> None:
    tp = semel.TopicPartition("numbers", 0)
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("numbers", value="1").result(10)
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign({tp: 99})
        with pytest.raises(
            BrokerError, match=r"numbers-0 at offset 99: .*: it lies behind the end, which is 1"
        ):
            consumer.poll(10)
    with semel.Admin(semel_server.bootstrap) as admin, semel.Consumer(semel_server.bootstrap) as consumer:
        admin.delete_records({tp: 1})
        consumer.assign({tp: 0})
        with pytest.raises(
            DataLoss, match="offsets 0 to 0 of topic 'numbers', partition 0 are gone: seek to 1"
        ):
            consumer.poll(10)


MISSING = semel.TopicPartition("mistyped", 0)


def test_a_topic_that_is_missing_is_told_by_its_name_long_before_the_time_is_over(
    semel_server: semel.LocalLog,
) -> None:
    with semel.Consumer(semel_server.bootstrap, request_timeout_ms=600_000) as consumer:
        with pytest.raises(UnknownTopic, match="semel topic create mistyped") as missing:
            consumer.assign([MISSING])
        assert missing.value.topic == "mistyped"
        assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        consumer.assign({MISSING: 0})
        with pytest.raises(UnknownTopic, match="'mistyped'"):
            consumer.poll(600)


def test_a_partition_that_its_topic_lacks_is_told_too(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("numbers", 2)
    with (
        semel.Consumer(semel_server.bootstrap, request_timeout_ms=600_000) as consumer,
        pytest.raises(UnknownTopic, match="it has 2 partitions; there is no 2"),
    ):
        consumer.assign([semel.TopicPartition("numbers", 2)])


def test_records_that_are_taken_one_by_one_are_those_that_a_poll_gives(semel_server: semel.LocalLog) -> None:
    tp = semel.TopicPartition("numbers", 0)
    with semel.Producer(semel_server.bootstrap) as producer:
        for number in range(1_000):
            producer.send("numbers", value=b"%d" % number)
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([tp])
        rows = iter(consumer)
        one_by_one = [next(rows) for _ in range(250)]
        assert consumer.position(tp) == 250
        in_one = consumer.poll(5.0, 700)
        assert consumer.position(tp) == 950
        rest = [next(rows) for _ in range(50)]
        assert consumer.position(tp) == 1_000 == consumer.end_offsets()[tp]
        consumer.seek_to_beginning()
        assert consumer.poll(5.0, 1_000) == one_by_one + in_one + rest
        consumer.seek_to_end(tp)
        assert consumer.poll(timeout_ms=0) == []


def test_what_is_paused_waits(semel_server: semel.LocalLog) -> None:
    first, second = semel.TopicPartition("a", 0), semel.TopicPartition("b", 0)
    with semel.Producer(semel_server.bootstrap) as producer:
        for topic in "ab":
            producer.send(topic, value=b"row")
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([first, second])
        consumer.pause(first)
        assert consumer.paused() == {first}
        assert [record.topic for record in consumer.poll(5.0)] == ["b"]
        consumer.resume(first)
        assert [record.topic for record in consumer.poll(5.0)] == ["a"]
