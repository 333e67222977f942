"""What Spark's own Kafka connector doubles when it is killed, cleaned by the header that it wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.flow.flowing import records, run

import semel
from semel.core.flow.lineage import Lineage
from semel.flow import source
from semel.flow.replay import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROWS = 2_000
WORDS = [" ".join(f"w{(row + number) % 23}" for number in range(1 + row % 3)) for row in range(ROWS)]


def job(bootstrap: str, jars: list[Path], checkpoint: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.flow.doubling_job", bootstrap, ",".join(map(str, jars))]
    return subprocess.Popen(
        [*command, str(checkpoint), "200"], stderr=subprocess.DEVNULL, start_new_session=True
    )


def commits(checkpoint: Path) -> list[Path]:
    found = [each for each in (checkpoint / "commits").glob("*") if each.name.isdigit()]
    return sorted(found, key=lambda each: int(each.name))


def kill(process: subprocess.Popen) -> None:
    """With its JVM: they are a session of their own."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_connector_that_is_killed_doubles_rows_and_a_flow_takes_each_once(
    semel_server, spark_connector_jars, tmp_path
):
    bootstrap, checkpoint = semel_server.bootstrap, tmp_path / "checkpoint"
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("clicks", 2)
        admin.create_topic("dirty", 3)
        admin.create_topic("clean", 2)
        topic_id = admin.describe_topic("clicks").topic_id
    with semel.Producer(bootstrap) as producer:
        for number, words in enumerate(WORDS):
            producer.send("clicks", words.encode(), partition=number % 2)
    for turn in range(2):
        running = job(bootstrap, spark_connector_jars, checkpoint)
        deadline = time.monotonic() + 120
        while len(commits(checkpoint)) < 2 + 3 * turn and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        kill(running)
        # Where it was killed depends on the machine; one that dies before its commit is what is to be seen.
        newest = commits(checkpoint)[-1]
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    last = job(bootstrap, spark_connector_jars, checkpoint)
    assert last.wait(150) == 0

    wanted = Counter(
        (number % 2, number // 2, at)
        for number, words in enumerate(WORDS)
        for at in range(len(words.split()))
    )

    def lineages(topic: str) -> Counter:
        of = [Lineage.read(record["headers"][0]["value"]) for record in records(bootstrap, topic)]
        assert {(each.topic, each.topic_id) for each in of} == {("clicks", topic_id)}
        return Counter((each.partition, each.offset, each.index) for each in of)

    doubled = lineages("dirty")
    assert set(doubled) == set(wanted) and max(doubled.values()) > 1
    flow = source("dirty", dedupe="lineage").to("clean")
    run(flow, bootstrap, tmp_path / "store")
    assert lineages("clean") == wanted
    for record in records(bootstrap, "clean"):
        of = Lineage.read(record["headers"][0]["value"])
        assert record["value"] == WORDS[2 * of.offset + of.partition].split()[of.index].encode()
    assert replay(flow.plan(), bootstrap).holds
