"""Windows of a partition that rests, on Spark: its driver's planner ticks as the one in this process does."""

from __future__ import annotations

import time

import pytest
from tests.flow.flowing import put, records, rows

from semel.flow import source
from semel.flow.replay import replay

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]


def test_windows_close_where_nothing_comes(spark, semel_server, tmp_path):
    from semel.flow.on_spark import FlowOnSpark

    bootstrap = semel_server.bootstrap
    clicks = source("clicks", json="user string, at timestamp").key_by("user", partitions=2)
    flow = clicks.tumbling("4 seconds", on="at", idle="2 seconds").count().to("visits")
    put(bootstrap, "clicks", *({"user": user, "at": "2024-01-01T00:00:01Z"} for user in ("a", "d", "a")))
    running = FlowOnSpark(flow.plan(), bootstrap, spark, store=tmp_path).start()
    try:
        deadline = time.monotonic() + 300
        while len(rows(bootstrap, "visits")) < 2:
            assert not running.wait(0.5)
            assert time.monotonic() < deadline
    finally:
        running.stop()
    assert sorted((row["user"], row["count"]) for row in rows(bootstrap, "visits")) == [("a", 2), ("d", 1)]
    assert records(bootstrap, "visits.late") == []
    again = replay(flow.plan(), bootstrap)
    assert again.holds, again.text()
