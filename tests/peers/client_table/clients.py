"""The clients of the table: how each is driven, how it becomes a member of a group, and where this machine has it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.peers.apache_kafka import JavaTool
from tests.peers.client_table.asking import Driver
from tests.peers.client_table.features import FEATURES, Tried, probe_all
from tests.peers.client_table.log import Log
from tests.peers.group_members.programs import (
    Start,
    console_member,
    franz_go_member,
    java_member,
    kafkajs_member,
    kcat_member,
    python_member,
)
from tests.peers.parts import Missing, find_franz_go, find_java, find_kafka_jars, find_kafkajs, find_kcat
from tests.peers.transactional_copiers import copier
from tests.peers.transactional_copiers.programs import (
    franz_go_copier,
    java_copier,
    kafkajs_copier,
    python_copier,
)

_HERE: Final = Path(__file__).parent
BOTH: Final = frozenset({"cooperative", "instance_id"})


@dataclass(frozen=True, slots=True)
class Client:
    """``command`` is its driver's, but for the log's address; ``can``: what of ``How`` its members can do.

    ``copy``: how it copies a topic in transactions.
    """

    name: str
    command: tuple[str, ...]
    start: Start | None = None
    can: frozenset[str] = BOTH
    environment: Mapping[str, str] = field(default_factory=dict)
    copy: copier.Start | None = None

    @contextmanager
    def driver(self, log: Log) -> Iterator[Driver]:
        driver = Driver([*self.command, log.bootstrap], self.environment)
        try:
            yield driver
        finally:
            driver.close()

    def version(self, log: Log) -> str:
        with self.driver(log) as driver:
            return str(driver.ask("version"))

    def probe(self, log: Log, names: Iterable[str] = FEATURES) -> dict[str, str]:
        """The outcome of each feature on this log."""
        with self.driver(log) as driver:
            return probe_all(names, Tried(driver.ask, log, self.start, self.can, self.copy))


def _in_python(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.peers.client_table.python_driver", name)


def java_tool() -> JavaTool | Missing:
    java, jars = find_java(), find_kafka_jars()
    if isinstance(java, Missing):
        return java
    return jars if isinstance(jars, Missing) else JavaTool(java, jars)


def _java(folder: Path) -> Client | Missing:
    tool = java_tool()
    if isinstance(tool, Missing):
        return tool
    command = tool.command(str(_HERE / "Drive.java"))
    return Client("Kafka's Java clients", tuple(command), java_member(tool, folder), copy=java_copier(tool))


def _kafkas_tools(_: Path) -> Client | Missing:
    tool = java_tool()
    if isinstance(tool, Missing):
        return tool
    environment = {"JAVA": str(tool.java), "KAFKA_JARS": str(tool.jars)}
    return Client("Kafka's tools", _in_python("KafkasTools"), console_member(tool), environment=environment)


def _confluent_kafka(_: Path) -> Client:
    return Client(
        "confluent-kafka",
        _in_python("ConfluentKafka"),
        python_member("confluent_kafka"),
        copy=python_copier("confluent_kafka"),
    )


def _kafka_python(_: Path) -> Client:
    return Client(
        "kafka-python",
        _in_python("KafkaPython"),
        python_member("kafka_python"),
        copy=python_copier("kafka_python"),
    )


def _aiokafka(_: Path) -> Client:
    return Client(
        "aiokafka",
        _in_python("Aiokafka"),
        python_member("aiokafka"),
        can=frozenset({"instance_id"}),
        copy=python_copier("aiokafka"),
    )


def _semel(_: Path) -> Client:
    return Client("semel", _in_python("Semel"), python_member("semel"), copy=python_copier("semel"))


def _kcat(_: Path) -> Client | Missing:
    kcat = find_kcat()
    if isinstance(kcat, Missing):
        return kcat
    return Client("kcat", _in_python("Kcat"), kcat_member(kcat), environment={"KCAT": str(kcat)})


def _kafkajs(_: Path) -> Client | Missing:
    modules = find_kafkajs()
    if isinstance(modules, Missing):
        return modules
    return Client(
        "kafkajs",
        ("node", str(_HERE / "drive.js")),
        kafkajs_member(modules),
        can=frozenset(),
        environment={"NODE_PATH": str(modules)},
        copy=kafkajs_copier(modules),
    )


def _franz_go(_: Path) -> Client | Missing:
    program = find_franz_go()
    if isinstance(program, Missing):
        return program
    return Client(
        "franz-go", (str(program), "drive"), franz_go_member(program), copy=franz_go_copier(program)
    )


# By name, in the order of the table's columns. Each may write into a folder of the caller's.
CLIENTS: Final[dict[str, Callable[[Path], Client | Missing]]] = {
    "java": _java,
    "kafkas-tools": _kafkas_tools,
    "confluent-kafka": _confluent_kafka,
    "kcat": _kcat,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "kafkajs": _kafkajs,
    "franz-go": _franz_go,
    "semel": _semel,
}
