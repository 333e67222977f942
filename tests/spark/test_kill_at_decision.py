"""kill -9 of a real Spark driver at the two moments that matter most: all rows written and nothing decided;
decided and Spark not told. The cable between driver and server finds the moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.cable import Cable

from semel.client.blocking import Cluster
from semel.core.sink.journal import SINKS_TOPIC, Decision, decode

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.loops, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("copying_driver.py")
DECISION = b'"kind":"decision"'
ROWS = [b"%04d" % number for number in range(500)]


@contextlib.contextmanager
def driver_process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a process group of its own, which is gone at the end: driver, JVM and Python workers at once."""
    driver = subprocess.Popen([sys.executable, str(DRIVER), *arguments], start_new_session=True)
    try:
        yield driver
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


@pytest.mark.parametrize("forwards", [False, True], ids=["undecided", "decided"])
def test_every_row_once(forwards, semel_server_factory, spark, tmp_path, log_of):
    cable = Cable()
    server = semel_server_factory(advertised=cable.address)
    cable.target = server.bootstrap
    cable.go_dead_at(DECISION, forwards=forwards)
    with contextlib.closing(cable), Cluster(server.bootstrap) as cluster:
        log = log_of(server.bootstrap, cluster)
        source, sink = log.topic("in", 2), log.topic("out", 2)
        log.write(source, ROWS[:300])
        log.write(source, ROWS[300:], partition=1)
        with driver_process(cable.address, source, sink, str(tmp_path / "ck"), "0") as driver:
            while not cable.caught.wait(0.2):
                assert driver.poll() is None, "the driver ended without a DECISION"
        assert log.values(sink) == ROWS
        assert not list((tmp_path / "ck" / "commits").glob("[0-9]*"))
        decided = [decode(record.value) for record in log.read(SINKS_TOPIC) if record.value is not None]
        assert any(isinstance(entry, Decision) for entry in decided) == forwards
        frame = (
            spark.readStream.format("semel")
            .option("kafka.bootstrap.servers", server.bootstrap)
            .options(subscribe=source, startingOffsets="earliest")
            .load()
            .select("value")
        )
        writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", server.bootstrap)
        writer = writer.options(topic=sink, sinkId="copied", checkpointLocation=str(tmp_path / "ck"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        assert log.values(sink) == ROWS
        assert list((tmp_path / "ck" / "commits").glob("[0-9]*"))
