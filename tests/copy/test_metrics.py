"""What a copy tells Prometheus."""

from __future__ import annotations

import socket
import threading
import urllib.request
import uuid

import pytest
from tests.copy.copying import plan_of, put

import semel
from semel.copy import Copied, CopiedTopic, run_copy
from semel.copy.metrics import CopyCollector, serve_metrics
from semel.errors import ConfigError


def test_there_is_a_series_for_each_topic():
    told: list[Copied | None] = [None]
    collector = CopyCollector("job", lambda: told[0])
    assert list(collector.collect()) == []
    told[0] = Copied((CopiedTopic("a", 5, 500, 3, 2), CopiedTopic("b", 1, 70, 0, 1)), 10)
    found = {metric.name: metric.samples for metric in collector.collect()}
    assert [each.labels for each in found["semel_copy_rows"]] == [
        {"job": "job", "topic": "a"},
        {"job": "job", "topic": "b"},
    ]
    assert {name: [each.value for each in samples] for name, samples in found.items()} == {
        "semel_copy_rows": [5, 1],
        "semel_copy_bytes": [500, 70],
        "semel_copy_lag": [3, 0],
        "semel_copy_partitions": [2, 1],
    }
    assert (told[0].rows, told[0].size_bytes, told[0].lag, told[0].partitions) == (6, 570, 3, 3)


def test_the_page_of_a_copy(semel_server_session):
    log = semel_server_session.bootstrap
    topics = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("few", "many")]
    with semel.Admin(log) as admin:
        for topic in topics:
            admin.create_topic(topic, 2)
    for topic, count in zip(topics, (7, 70), strict=True):
        put(log, topic, [b"row"] * count)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match="cannot serve metrics on"):
            serve_metrics(address, "job", lambda: None)
    newest: list[Copied | None] = [None]
    close = serve_metrics(address, "job", lambda: newest[-1])
    plan = plan_of(log, log, *topics, name=topics[0], prefix="eu.")
    try:
        copied = run_copy(plan, until_end=True, stop=threading.Event(), told=newest.append)
        page = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
    finally:
        close()
    for topic, count in zip(topics, (7, 70), strict=True):
        assert f'semel_copy_rows_total{{job="job",topic="{topic}"}} {count}.0' in page
        assert f'semel_copy_lag{{job="job",topic="{topic}"}} 0.0' in page
    assert copied.rows == 77 and copied.topics == newest[-1].topics
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{address}/metrics", timeout=10)
