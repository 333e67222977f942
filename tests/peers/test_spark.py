"""Spark's own Kafka connector on semel (the way to migrate); our source on Apache Kafka; a real cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.spark_cluster import SparkCluster
from tests.peers.spark_job import ROWS

from semel.local import LocalLog

# Up to five JVMs start on what may be two cores.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

JOB_TIMEOUT_S = 150.0
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
    with SparkCluster(tmp_path, workers=2) as cluster:
        found = run_job("semel", log.bootstrap, cluster.master, str(tmp_path / "checkpoint"))
    assert found == {"in": WHOLE, "out": WHOLE}
    launched = re.findall(r"Launching executor \S+ on worker (\S+)", cluster.master_log)
    assert len(set(launched)) == 2, f"executors ran on {launched}"
