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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.peers.ending import ended_with_us

READY_LINE: Final = "Kafka Server started"
READY_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
# A node of a test lives for a minute: the second compiler and a parallel collector would not pay.
JVM_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

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


class Node:
    """One process of Apache Kafka, to kill, to stop and to start again; it ends with who started it."""

    def __init__(
        self,
        tool: JavaTool,
        folder: Path,
        properties: Mapping[str, str],
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        cpu: int | None = None,
    ) -> None:
        self._tool, self._cpu, self._properties = tool, cpu, dict(properties)
        self.data_dir = Path(properties["log.dirs"])
        self._jvm_options = (f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", *jvm_options)
        self._log_path = folder / "server.log"
        self._properties_path = folder / "server.properties"
        folder.mkdir(parents=True, exist_ok=True)
        self._properties_path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = ExitStack()

    def format(self, cluster_id: str, features: Mapping[str, int] | None = None) -> None:
        """Make its data folder, once. ``features``: those at another level than the newest."""
        levels = [f"--feature={name}={level}" for name, level in (features or {}).items()]
        settings = ("-t", cluster_id, "-c", str(self._properties_path))
        self._tool.output("kafka.tools.StorageTool", "format", *settings, *levels)

    def join(self, cluster_id: str) -> None:
        """Make the data folder of a broker, which learns all else from its controller: that needs no JVM."""
        self.data_dir.mkdir()
        text = f"version=1\ncluster.id={cluster_id}\nnode.id={self._properties['node.id']}\n"
        (self.data_dir / "meta.properties").write_text(text)

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start it on its ports and folder; returns when it serves."""
        assert not self.is_running, "it runs already"
        command = [
            *([] if self._cpu is None else ["taskset", "-c", str(self._cpu)]),
            str(self._tool.java),
            *self._jvm_options,
            *("-cp", f"{self._tool.jars}/*", "kafka.Kafka", str(self._properties_path)),
        ]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=_without_kafka_options())
        try:
            self._ending.enter_context(ended_with_us(self._process.pid))
            self._await_ready(self._process, timeout_s)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """``kill -9``; what it has written is in the system's cache, and stays."""
        if self._process is not None:
            self._process.kill()
            self._gone(self._process)

    def stop(self) -> None:
        """As an operator does it: a broker hands over what it leads first."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            finally:
                self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    def _await_ready(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while READY_LINE not in self._log_path.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError(f"Apache Kafka did not start:\n{self._log_path.read_text()[-4000:]}")
            time.sleep(0.05)

    def _gone(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._process = None
        self._ending.close()


class ApacheKafka:
    """A running node: ``bootstrap`` is its address, ``data_dir`` its log folder."""

    def __init__(
        self,
        java: Path,
        jars: Path,
        folder: Path,
        *,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        settings: Mapping[str, str] | None = None,
        cpu: int | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.data_dir = folder / "data"
        self._features = features  # at another level than the newest
        broker_port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker_port}"
        properties = {
            **SINGLE_NODE,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_dir),
            **(settings or {}),
        }
        self._node = Node(
            JavaTool(java, jars), folder, properties, heap_mb=heap_mb, jvm_options=jvm_options, cpu=cpu
        )
        self.ready_after_s = 0.0

    def __enter__(self) -> Self:
        self._node.format(new_cluster_id(), self._features)
        self._start()
        return self

    def _start(self) -> None:
        started_s = time.monotonic()
        self._node.start()
        self.ready_after_s = time.monotonic() - started_s

    def crash(self) -> None:
        """``kill -9``; what it has written is in the system's cache, and stays."""
        self._node.kill()

    def restart(self) -> None:
        """Start it again, with its port and folder."""
        self._node.kill()
        self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.kill()  # its folder is scratch: nothing is worth a clean stop's seconds

    @property
    def process_id(self) -> int:
        return self._node.process_id


def new_cluster_id() -> str:
    """A cluster is known by it: no two here have the same."""
    # Base64 of 16 bytes; a random one may begin with "-", which the tool takes for an option.
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def free_ports(count: int) -> list[int]:
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
