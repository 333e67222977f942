"""The consumer of assigned partitions."""

from __future__ import annotations

from typing import get_type_hints

import pytest

import semel
from semel.client.aio_consumer import AsyncConsumer, ConsumerChoices
from semel.errors import ConfigError


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


def test_a_type_checker_sees_the_settings_that_there_are() -> None:
    keywords = get_type_hints(AsyncConsumer.__init__)
    for other in ("bootstrap", "return"):
        del keywords[other]
    assert get_type_hints(ConsumerChoices) == keywords
