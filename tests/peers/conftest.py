"""The log under test, by its address only: semel, and Apache Kafka as the proof of the test itself."""

from __future__ import annotations

import itertools

import pytest

_topic_numbers = itertools.count(1)


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a running log: semel's, then Apache Kafka's."""
    if request.param == "semel":
        return str(request.getfixturevalue("semel_server").bootstrap)
    return str(request.getfixturevalue("apache_kafka").bootstrap)


@pytest.fixture
def topic() -> str:
    """A name that no other test uses: Apache Kafka is shared by the session."""
    return f"peers-{next(_topic_numbers)}"
