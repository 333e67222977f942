"""One real Apache Kafka node (KRaft, broker and controller in one process), and Kafka's own tools.

The node lives in a scratch folder on free loopback ports and is ended by its process id; it never outlives
the ``with`` block.
"""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# Base64 of 16 bytes; a random one may begin with "-", which the tool takes for an option.
READY_LINE: Final = "Kafka Server started"
READY_TIMEOUT_S: Final = 60.0

# Single-node settings: without them internal topics wait for replicas that never come.
SINGLE_NODE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class JavaTool:
    """Runs Kafka's Java programs, as its shell scripts do, without the scripts."""

    java: Path
    jars: Path
    more_jars: tuple[Path, ...] = ()  # folders of theirs

    def command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        # Short-lived programs: the second compiler and a parallel collector would only cost start-up.
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Xmx{heap_mb}m")
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        classes = ":".join(f"{folder}/*" for folder in (self.jars, *self.more_jars))
        return [str(self.java), *quick, quiet, "-cp", classes, main_class, *arguments]

    def run(
        self, main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = 90.0
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end. The exit code is the caller's to judge; see :meth:`output`."""
        return subprocess.run(
            self.command(main_class, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def output(
        self, main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = 90.0
    ) -> str:
        """What the program printed; an exit code other than 0 is an ``AssertionError`` with its messages."""
        done = self.run(main_class, *arguments, stdin=stdin, timeout_s=timeout_s)
        assert done.returncode == 0, f"{main_class} {arguments}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


def table_of(printed: str) -> list[dict[str, str]]:
    """A table that a tool has printed, by its header."""
    lines = [re.split(r"\s{2,}|\s(?=\S)", line.strip()) for line in printed.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


class ApacheKafka:
    """A running node: ``bootstrap`` is its address, ``data_dir`` its log folder."""

    def __init__(
        self,
        java: Path,
        jars: Path,
        folder: Path,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        settings: Mapping[str, str] | None = None,
        cpu: int | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.data_dir = folder / "data"
        self._log_path = folder / "server.log"
        self._java, self._jars, self._folder = java, jars, folder
        self._heap_mb, self._jvm_options = heap_mb, tuple(jvm_options)
        self._settings = dict(settings or {})
        self._features = dict(features or {})  # at another level than the newest
        self._cpu = cpu
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""
        self.ready_after_s = 0.0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        broker_port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker_port}"
        properties = {
            **SINGLE_NODE,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_dir),
            **self._settings,
        }
        properties_path = self._folder / "server.properties"
        properties_path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        formatted = JavaTool(self._java, self._jars).run(
            "kafka.tools.StorageTool",
            "format",
            *("-t", _new_cluster_id(), "-c", str(properties_path)),
            *(f"--feature={name}={level}" for name, level in self._features.items()),
        )
        assert formatted.returncode == 0, formatted.stderr
        self._start()
        return self

    def _start(self) -> None:
        started_s = time.monotonic()
        command = [
            *([] if self._cpu is None else ["taskset", "-c", str(self._cpu)]),
            str(self._java),
            f"-Xms{self._heap_mb}m",
            f"-Xmx{self._heap_mb}m",
            *self._jvm_options,
            *("-cp", f"{self._jars}/*", "kafka.Kafka", str(self._folder / "server.properties")),
        ]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=_without_kafka_options())
        try:
            self._await_ready()
        except BaseException:
            self._end()
            raise
        self.ready_after_s = time.monotonic() - started_s

    def crash(self) -> None:
        """``kill -9``; what it has written is in the system's cache, and stays."""
        self._end()

    def restart(self) -> None:
        """Start it again, with its port and folder."""
        self._end()
        self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while READY_LINE not in self._log_path.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError(f"Apache Kafka did not start:\n{self._log_path.read_text()[-4000:]}")
            time.sleep(0.05)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()  # its folder is scratch: nothing is worth a clean stop's seconds
        self._process.wait()
        self._process = None


def _new_cluster_id() -> str:
    """A cluster is known by it: no two nodes here have the same."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _free_ports(count: int) -> list[int]:
    """Free loopback ports, all distinct. Kafka's voters must be named in advance, so 0 is no choice there."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _without_kafka_options() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KAFKA_", "JAVA_TOOL", "JDK_JAVA"))
    }
