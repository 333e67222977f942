"""Which tests are of which level, and fixtures for the real parts: Apache Kafka, its Java tools, ZooKeeper, kcat ...

A test whose part this machine lacks is skipped, one summary line a part; with ``CI=true`` that is a failure,
because there ``tools/install_parts.sh`` has run first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from tests import forked
from tests.peers.apache_kafka import ApacheKafka, JavaTool
from tests.peers.kafka_cluster import KafkaCluster
from tests.peers.parts import (
    Missing,
    find_franz_go,
    find_java,
    find_kafka_jars,
    find_kafka_streams_jars,
    find_kafkajs,
    find_kcat,
    find_older_pyspark,
    find_pyspark_jars,
    find_spark_connector_jars,
)
from tests.peers.zookeeper import ZooKeeper

from tools import quick_spark

# No test asserts a time: on a busy machine a first call that imports something takes longer than a second one.
# The same examples each time, and few; what asks for a number of its own asks for a part of the profile's.
hypothesis.settings.register_profile(
    "few", deadline=None, derandomize=True, database=None, max_examples=20, print_blob=True
)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=100, print_blob=True)
hypothesis.settings.load_profile("few")

quick_spark.use()
forked.use()

# A shell's background job ignores Ctrl-C, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One Spark session and one Apache Kafka for all tests that want one: they take turns on one process.
_JVM: Final = ("kafka", "spark", "zookeeper")
# What starts a process, or most of whose room does, is no part of `make check`.
_SERVERS: Final = frozenset(
    ("semel_server", "semel_server_factory", "semel_server_session", "server", "start_server")
)
_PURE: Final = frozenset(("audit", "core", "flow", "record", "server", "sim", "tools", "verdicts", "wire"))
# What `tools/install_parts.sh` installs for `make thorough` alone.
_SELDOM_INSTALLED: Final = frozenset(
    ("franz_go", "kafka_streams", "kafkajs", "kcat", "older_pyspark", "spark_connector_jars")
)
_TESTS: Final = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses, and before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        room = item.path.relative_to(_TESTS).parts[0]
        if not (room in _PURE or room.endswith(".py")) or not _SERVERS.isdisjoint(item.fixturenames):
            item.add_marker("slow")
        if not _SELDOM_INSTALLED.isdisjoint(item.fixturenames):
            item.add_marker("thorough")
        if any(item.get_closest_marker(mark) for mark in _JVM):
            item.add_marker("jvm")
            if not item.get_closest_marker("everyday"):
                item.add_marker("thorough")
            item.add_marker(pytest.mark.xdist_group("jvm"))
    items.sort(key=_begins_late)


def pytest_collection_finish(session: pytest.Session) -> None:
    """xdist writes a group behind the id. Where pytest does not let it, each process starts a Spark of its own."""
    is_grouped = session.config.getoption("loadgroup", default=False)
    if is_grouped and any("@" not in item.nodeid for item in session.items if item.get_closest_marker("jvm")):
        raise pytest.UsageError("this pytest-xdist does not group tests under this pytest: run make setup")


def _begins_late(item: pytest.Item) -> int:
    """What takes longest goes first, so that no process works alone at the end."""
    if item.get_closest_marker("jvm"):
        return 0
    return 2 if item.get_closest_marker("xdist_group") is None else 1


class _AtOnce:
    """Prints a failure when it happens; pytest waits for the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal:
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's processes report to the one that started them
        config.pluginmanager.register(_AtOnce(config))


class _PartMissing(pytest.skip.Exception):
    """A skip for a reason of this machine's, not of the test's."""


def _need(part: Path | Missing) -> Path:
    if isinstance(part, Missing):
        if os.environ.get("CI") == "true":
            pytest.fail(str(part), pytrace=False)
        raise _PartMissing(str(part))
    return part


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all skips for one missing part one place, so that the summary folds them into one line."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, _PartMissing):
        report.longrepr = (__file__, 1, f"Skipped: {call.excinfo.value}")
    return report


@pytest.fixture(scope="session")
def java_tool() -> JavaTool:
    """Kafka's Java command-line tools: ``java_tool.output("org.apache.kafka.tools.TopicCommand", …)``."""
    return JavaTool(_need(find_java()), _need(find_kafka_jars()))


@pytest.fixture(scope="session")
def kafka_streams(java_tool: JavaTool) -> JavaTool:
    """Runs programs that are written with Kafka Streams."""
    return JavaTool(java_tool.java, java_tool.jars, (_need(find_kafka_streams_jars()),))


@pytest.fixture(scope="session")
def apache_kafka(java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A real Apache Kafka node, one for the whole session: use topic names of your own."""
    with ApacheKafka(java_tool.java, java_tool.jars, tmp_path_factory.mktemp("kafka")) as node:
        yield node


@pytest.fixture(scope="session")
def running_kafka_cluster(
    java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    with KafkaCluster(java_tool, tmp_path_factory.mktemp("kafka-cluster")) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(running_kafka_cluster: KafkaCluster) -> KafkaCluster:
    """Three real Apache Kafka brokers, one cluster for the whole session, to kill and to cut off.

    It is whole when a test gets it, whatever the test before did. Its start takes as long as four JVMs need: give
    the test a ``timeout`` of minutes.
    """
    running_kafka_cluster.restore()
    return running_kafka_cluster


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A real ZooKeeper of the test's own, to kill and to freeze."""
    with ZooKeeper(_need(find_java()), _need(find_pyspark_jars()), tmp_path / "zookeeper") as server:
        yield server


@pytest.fixture(scope="session")
def kcat() -> Path:
    """The kcat program."""
    return _need(find_kcat())


@pytest.fixture(scope="session")
def kafkajs() -> Path:
    """kafkajs: a folder for NODE_PATH."""
    return _need(find_kafkajs())


@pytest.fixture(scope="session")
def franz_go() -> Path:
    """A member of a group, as a program."""
    return _need(find_franz_go())


@pytest.fixture(scope="session")
def older_pyspark() -> Path:
    """The oldest PySpark that the format runs on: a folder for PYTHONPATH."""
    return _need(find_older_pyspark())


@pytest.fixture(scope="session")
def spark_connector_jars() -> list[Path]:
    """The jars of Spark's own Kafka connector, for ``spark.jars``."""
    return sorted(_need(find_spark_connector_jars()).glob("*.jar"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session with two task slots and small shuffles."""
    from semel.spark import session

    spark = session(
        "semel-tests",
        "local[2,4]",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stopTimeout": "20s",
            "spark.log.level": "OFF",
        },
    )
    yield spark
    spark.stop()
