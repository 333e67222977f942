"""A rate is kept, whatever the size of what comes at once; and who is held back by it still hears a stop."""

from __future__ import annotations

import os
import threading
import uuid

import pytest
from tests.copy.copying import plan_of, put, values

import semel
from semel.client.blocking import Cluster
from semel.copy import run_copy
from semel.spark.process import SinkProcess, SystemClock, inside

ROW_BYTES, ROWS = 100_000, 6


class PassingClock(SystemClock):
    """Whoever pauses finds that the time has passed."""

    passed_ms = 0

    def elapsed_ms(self):
        return super().elapsed_ms() + self.passed_ms

    def pause(self, pause_ms):
        self.passed_ms += pause_ms


@pytest.fixture
def topic(semel_server_session, monkeypatch):
    monkeypatch.setattr("semel.copy.reading.PARTITION_BYTES_MAX", 1)  # a batch an answer
    log, name = semel_server_session.bootstrap, f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(name, 1)
    for _ in range(ROWS):
        put(log, name, [os.urandom(ROW_BYTES)])
    return name


def test_a_row_of_ten_seconds_takes_ten(semel_server_session, topic):
    log = semel_server_session.bootstrap
    process = SinkProcess("process", "family", clock=PassingClock(), new_cluster=lambda _: Cluster(log))
    with inside(process):
        copied = run_copy(
            plan_of(log, log, topic, name=topic, prefix="eu.", bytes_per_s=ROW_BYTES // 10), until_end=True
        )
    for cluster in process.clusters.values():
        cluster.close()
    assert copied.rows == ROWS
    assert copied.elapsed_ms >= (ROWS - 1) * 10_000


def test_who_is_held_back_stops_when_told(semel_server_session, topic):
    log, stop = semel_server_session.bootstrap, threading.Event()
    plan = plan_of(log, log, topic, name=topic, prefix="eu.", bytes_per_s=1)

    def told(copied):
        if copied.rows:
            stop.set()

    copying = threading.Thread(target=run_copy, args=(plan,), kwargs={"stop": stop, "told": told})
    copying.start()
    copying.join(60)
    assert not copying.is_alive()
    assert len(values(log, f"eu.{topic}")) == 1
