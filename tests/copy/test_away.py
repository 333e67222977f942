"""A server that is away for a moment: a copy waits for it, however long it had nothing to do before."""

from __future__ import annotations

import threading
import uuid

import pytest
from tests.copy.copying import plan_of, put, values

import semel
from semel.client.blocking import Cluster
from semel.copy import run_copy
from semel.copy.run import TOPICS_MAX_AGE_MS
from semel.errors import ConnectionLost
from semel.spark.process import SinkProcess, SystemClock, inside

TEN_MINUTES_MS = 600_000


class MovedClock(SystemClock):
    """The machine's, and what the test adds."""

    added_ms = 0

    def elapsed_ms(self):
        return super().elapsed_ms() + self.added_ms


class CutOff(Cluster):
    """Loses its connection at each of so many requests."""

    cuts = 0

    def list_offsets(self, *asked, **more):
        if self.cuts:
            self.cuts -= 1
            raise ConnectionLost("cut")
        return super().list_offsets(*asked, **more)


@pytest.mark.parametrize("is_for_ever", [False, True])
def test_an_idle_copy_waits_for_a_log_that_is_away(semel_server_session, is_for_ever):
    log, topic = semel_server_session.bootstrap, f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(topic, 1)
    put(log, topic, [b"a"] * 10)
    plan = plan_of(log, log, topic, name=topic, prefix="eu.", linger_ms=20)
    clock, stop, turns = MovedClock(), threading.Event(), []
    destination = CutOff(log)
    process = SinkProcess(
        "process",
        "family",
        clock=clock,
        new_cluster=lambda connection: destination if connection == plan.destination else Cluster(log),
    )

    def told(copied):
        turns.append(copied)
        if len(turns) == 1:
            clock.added_ms += TEN_MINUTES_MS
        elif len(turns) == 2:
            clock.added_ms += TOPICS_MAX_AGE_MS
            destination.cuts = 10**6 if is_for_ever else 3
        elif not destination.cuts:
            stop.set()

    with inside(process):
        if is_for_ever:
            clock.pause = lambda pause_ms: setattr(clock, "added_ms", clock.added_ms + 10 * pause_ms)
            with pytest.raises(ConnectionLost):
                run_copy(plan, stop=stop, told=told)
        else:
            assert run_copy(plan, stop=stop, told=told).rows == 10
    for cluster in process.clusters.values():
        cluster.close()
    assert values(log, f"eu.{topic}") == [b"a"] * 10
