"""Spark's own Kafka connector on semel (the way to migrate); our source on Apache Kafka; a real cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.spark_job import ROWS

from semel.local import LocalLog
from semel.spark.java import java_home

# Up to five JVMs start on what may be two cores.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

JOB_TIMEOUT_S = 150.0
DAEMON_TIMEOUT_S = 60.0
WHOLE = [ROWS, ROWS, ROWS * (ROWS - 1) // 2]


def create(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        each.result(30)


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for row in range(ROWS):
        producer.produce(topic, b"%d" % row, b"%d" % (row % 97))
    assert producer.flush(30) == 0


def run_job(*arguments: str) -> dict[str, list[int]]:
    command = [sys.executable, "-m", "tests.peers.spark_job", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-8_000:]
    found: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.kafka
def test_sparks_kafka_connector_writes_reads_and_copies(
    semel_server: LocalLog, spark_connector_jars: list[Path], tmp_path: Path
) -> None:
    create(semel_server.bootstrap, "in", "out")
    jars = ",".join(map(str, spark_connector_jars))
    found = run_job("connector", semel_server.bootstrap, jars, str(tmp_path / "checkpoint"))
    assert found == {"in": WHOLE, "out": WHOLE}


@pytest.mark.kafka
def test_our_source_reads_apache_kafka(
    apache_kafka: ApacheKafka, semel_server: LocalLog, tmp_path: Path
) -> None:
    create(apache_kafka.bootstrap, "in")
    create(semel_server.bootstrap, "out")
    fill(apache_kafka.bootstrap, "in")
    checkpoint = str(tmp_path / "checkpoint")
    found = run_job("semel", apache_kafka.bootstrap, "local[2]", checkpoint, semel_server.bootstrap)
    assert found == {"in": WHOLE, "out": WHOLE}


def test_a_standalone_cluster_of_two_workers_copies_exactly_once(
    semel_server_factory: Callable[..., LocalLog], tmp_path: Path
) -> None:
    log = semel_server_factory()
    create(log.bootstrap, "in", "out")
    fill(log.bootstrap, "in")
    with spark_cluster(tmp_path, workers=2) as master:
        found = run_job("semel", log.bootstrap, master, str(tmp_path / "checkpoint"))
    assert found == {"in": WHOLE, "out": WHOLE}
    launched = re.findall(r"Launching executor \S+ on worker (\S+)", (tmp_path / "master.log").read_text())
    assert len(set(launched)) == 2, f"executors ran on {launched}"


@contextmanager
def spark_cluster(folder: Path, *, workers: int) -> Iterator[str]:
    """A standalone master with one-core workers; its address."""
    with ExitStack() as stack:
        master_log = stack.enter_context(spark_daemon(folder / "master.log", "master.Master"))
        master = await_line(master_log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            resources = ("--cores", "1", "--memory", "1g", "-d", str(folder / f"worker-{number}"))
            worker_log = folder / f"worker-{number}.log"
            stack.enter_context(spark_daemon(worker_log, "worker.Worker", *resources, master))
            await_line(worker_log, r"(Successfully registered with master)")
        yield master


@contextmanager
def spark_daemon(log_path: Path, name: str, *arguments: str) -> Iterator[Path]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *where, *arguments]
    with log_path.open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield log_path
    finally:
        daemon.terminate()  # not killed: a worker ends its executors first
        daemon.wait(30)


def await_line(log_path: Path, pattern: str) -> str:
    give_up_s = time.monotonic() + DAEMON_TIMEOUT_S
    while (found := re.search(pattern, log_path.read_text(errors="replace"))) is None:
        assert time.monotonic() < give_up_s, log_path.read_text(errors="replace")[-4_000:]
        time.sleep(0.05)
    return found[1]
