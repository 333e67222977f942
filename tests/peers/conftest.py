"""The log under test, by its address only: semel, and Apache Kafka as the proof of the test itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from semel.local import LocalLog

_topic_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """One semel for the whole session, as there is one Apache Kafka: use topic names of your own."""
    with LocalLog(tmp_path_factory.mktemp("semel")) as log:
        yield log


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a running log: semel's, then Apache Kafka's."""
    if request.param == "semel":
        return str(request.getfixturevalue("shared_log").bootstrap)
    return str(request.getfixturevalue("apache_kafka").bootstrap)


@pytest.fixture
def topic() -> str:
    """A name that no other test uses: both logs are shared by the session."""
    return f"peers-{next(_topic_numbers)}"
