"""What a member subscribes to while nobody answers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import semel
from semel.errors import ConnectionLost


@pytest.fixture
def consumer(semel_server: semel.LocalLog) -> Iterator[semel.Consumer]:
    with semel.Admin(semel_server.bootstrap) as admin, semel.Producer(semel_server.bootstrap) as producer:
        for topic in ("other", "topic"):
            admin.create_topic(topic, 1)
            producer.send(topic, topic)
    with semel.Consumer(semel_server.bootstrap, group_id="g", request_timeout_ms=800) as consumer:
        yield consumer


def rows_of(consumer: semel.Consumer) -> list[bytes | None]:
    """The first that come; until then it may be told that nobody answers."""
    give_up_s = time.monotonic() + 30
    while time.monotonic() < give_up_s:
        try:
            if rows := consumer.poll(0.5):
                return [row.value for row in rows]
        except ConnectionLost:
            pass
    raise AssertionError("no rows came")


def test_a_pattern_that_nobody_could_look_for_is_looked_for_again(
    semel_server: semel.LocalLog, consumer: semel.Consumer
) -> None:
    semel_server.crash()
    with pytest.raises(ConnectionLost):
        consumer.subscribe("^topic")
    assert consumer.subscription() == set()
    semel_server.restart()
    assert rows_of(consumer) == [b"topic"]
    assert consumer.subscription() == {"topic"}


def test_what_was_read_before_such_a_pattern_is_read_until_it_is_known(
    semel_server: semel.LocalLog, consumer: semel.Consumer
) -> None:
    consumer.subscribe("other")
    assert rows_of(consumer) == [b"other"]
    semel_server.crash()
    with pytest.raises(ConnectionLost):
        consumer.subscribe("^topic")
    assert consumer.subscription() == {"other"}
    semel_server.restart()
    assert rows_of(consumer) == [b"topic"]
    assert consumer.subscription() == {"topic"}


def test_a_silence_that_is_over_is_not_told_later(
    semel_server: semel.LocalLog, consumer: semel.Consumer
) -> None:
    """Though no coordinator answers a consumer whose pattern stands for nothing yet."""
    semel_server.crash()
    with pytest.raises(ConnectionLost):
        consumer.subscribe("^none")
    with pytest.raises(ConnectionLost):
        for _ in range(40):
            consumer.poll(0.5)
    semel_server.restart()
    give_up_s = time.monotonic() + 30
    while time.monotonic() < give_up_s:
        try:
            for _ in range(10):
                consumer.poll(0.5)
            return
        except ConnectionLost:
            pass
    raise AssertionError("it is told again and again")
