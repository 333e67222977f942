"""A consumer's settings: what is chosen, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

import semel
from semel.client.aio_consumer import topics_of
from semel.client.consumer_settings import ConsumerChoices, ConsumerSettings
from semel.errors import ConfigError


def test_a_type_checker_sees_the_settings_that_there_are() -> None:
    assert get_type_hints(ConsumerChoices) == get_type_hints(ConsumerSettings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"group_instance_id": "one"}, "it needs group_id"),
        ({"group_id": ""}, "cannot be empty"),
        (
            {"heartbeat_interval_ms": 4_000, "session_timeout_ms": 6_000},
            "has to fit into session_timeout_ms=6000 twice",
        ),
        ({"partition_assignment_strategy": "fair"}, "'fair' is none; there are cooperative-sticky, range"),
        ({"partition_assignment_strategy": []}, "names none"),
        ({"auto_offset_reset": "start"}, "'start': one of earliest, latest"),
        ({"isolation_level": "serializable"}, "'serializable': read_committed or read_uncommitted"),
        ({"enable_auto_commit": "no"}, "True or False"),
        ({"max_poll_records": 0}, "a whole number, 1 or above"),
        ({"groupid": "g"}, "did you mean group_id"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        semel.Consumer("127.0.0.1:1", **settings)


def test_strategies_are_named_as_in_kafkas_settings_or_in_a_list() -> None:
    assert ConsumerSettings().membership().is_cooperative
    mixed = ConsumerSettings(partition_assignment_strategy="range, cooperative-sticky")
    assert mixed.strategies == ("range", "cooperative-sticky")
    assert not mixed.membership().is_cooperative
    assert ConsumerSettings(partition_assignment_strategy=["sticky", "range"]).strategies == (
        "sticky",
        "range",
    )


def test_a_group_is_asked_for_by_who_subscribes() -> None:
    with semel.Consumer("127.0.0.1:1") as consumer:
        with pytest.raises(ConfigError, match="give the consumer a group_id"):
            consumer.subscribe("flights")
        with pytest.raises(ConfigError, match=r"commit\(\) needs a group"):
            consumer.commit()


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ([], "no topic to subscribe to"),
        ("^flights[", "is no pattern"),
        (["flights", "^other"], "a pattern is subscribed to alone"),
        (["flights", ""], "'' is no name of a topic"),
    ],
)
def test_topics_that_are_none_are_refused(topics: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        topics_of(topics)
