"""The log under test, by its address only: semel, and Apache Kafka as the proof of the test itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.peers.apache_kafka import ApacheKafka, JavaTool
from tests.peers.transactional_copiers.server import Server

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
    return _address(request)


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=pytest.mark.thorough)])
def bootstrap_of_tools(request: pytest.FixtureRequest) -> str:
    """For Kafka's own tools: that they do on Apache Kafka what a test says is seldom news."""
    return _address(request)


def _address(request: pytest.FixtureRequest) -> str:
    if request.param == "semel":
        return str(request.getfixturevalue("shared_log").bootstrap)
    return str(request.getfixturevalue("apache_kafka").bootstrap)


@pytest.fixture(
    scope="module",
    params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A log of the module's own, to be killed. It takes short sessions, whose ends are waited for."""
    folder = tmp_path_factory.mktemp("server")
    if request.param == "semel":
        with LocalLog(folder, group_min_session_timeout_ms=1) as log:
            yield log
    else:
        tool: JavaTool = request.getfixturevalue("java_tool")
        settings = {
            "group.min.session.timeout.ms": "1",
            # What was killed is taken back when its session has ended.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        }
        with ApacheKafka(tool.java, tool.jars, folder, settings=settings) as node:
            yield node


@pytest.fixture
def topic() -> str:
    """A name that no other test uses: both logs are shared by the session."""
    return f"peers-{next(_topic_numbers)}"
