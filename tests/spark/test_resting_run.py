"""A run that rests for longer than its log remembers who has written."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import uuid

import pytest
from tests.spark.driving import Driver, numbers

from semel.client.blocking import Cluster
from semel.core.sink import run
from semel.errors import ReplayUnprovable
from semel.spark.options import Connection, SinkOptions
from semel.types import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_caches")]
EXPIRATION_MS = 4_000  # far above what a micro-batch takes here


@pytest.fixture(scope="module")
def log(tmp_path_factory, log_of):
    """A server that forgets producers soon."""
    command = [sys.executable, "-m", "semel.server", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path_factory.mktemp("log"))]
    command += [
        "-X",
        f"producer.id.expiration.ms={EXPIRATION_MS}",
        "-X",
        "log.retention.check.interval.ms=50",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        bootstrap = re.search(r"ready on (\S+),", server.stdout.readline()).group(1)
        with contextlib.closing(Cluster(bootstrap)) as cluster:
            yield log_of(bootstrap, cluster)
        server.terminate()


@pytest.fixture
def driver(log):
    def make(topic: str) -> Driver:
        return Driver(SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, topic))

    return make


def rest(log, topic: str) -> None:
    """Until nobody who wrote to ``topic`` is known."""
    deadline_s = time.monotonic() + 30
    while log.cluster.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.thorough
def test_an_old_run_is_not_gone_on_with(log, driver, monkeypatch):
    monkeypatch.setattr(run, "RUN_MS_MAX", EXPIRATION_MS // 2)
    topic = log.topic("out")
    resting = driver(topic)
    for turn in range(2):
        resting.micro_batch(2 * turn, 2 * turn + 2, turn)
        rest(log, topic)
    assert log.values(topic) == numbers(0, 4)
    assert len(log.owners(topic)) == 2


def test_a_young_run_goes_on(log, driver):
    topic = log.topic("out")
    busy = driver(topic)
    busy.micro_batch(0, 2, 0)
    busy.plan()
    assert len(log.owners(topic)) == 1


def test_a_writer_that_was_forgotten_in_a_run_stores_nothing_and_says_so(log, driver):
    topic = log.topic("out")
    resting = driver(topic)
    resting.micro_batch(0, 2, 0)
    ticket = resting.plan()
    rest(log, topic)
    with pytest.raises(ReplayUnprovable, match=r"are not stored.*Start the query again"):
        resting.task(ticket, 2, 4)
    assert log.values(topic) == numbers(0, 2)
    driver(topic).micro_batch(2, 4, 1)
    assert log.values(topic) == numbers(0, 4)


def test_a_driver_that_was_forgotten_in_its_run_decides_nothing_and_says_so(log, driver):
    topic = log.topic("out")
    resting = driver(topic)
    ticket = resting.plan()
    attempted = resting.task(ticket, 0, 2)
    rest(log, topic)
    with pytest.raises(ReplayUnprovable, match=r"is not stored.*Start the query again"):
        resting.decide(ticket, attempted, 0)
    driver(topic).micro_batch(0, 3, 0)
    assert log.values(topic) == numbers(0, 3)
