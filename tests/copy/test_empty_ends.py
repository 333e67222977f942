"""Sources whose last offsets have no rows any more: a cleaner may leave an end without batches."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from tests.copy.copying import go, plan_of, put, values
from tests.peers.apache_kafka import ApacheKafka

import semel
from semel.client.blocking import Cluster
from semel.copy import run_copy
from semel.record.batch import scan_batches
from semel.types import LATEST_TIMESTAMP, TopicPartition

GIVES_UP_S = 30.0


def without_its_last_batch(folder: Path) -> None:
    """The partition ends with an empty segment; what stood in front of it is gone, as compacted rows are."""
    (log,) = folder.glob("*.log")
    batches = list(scan_batches(log.read_bytes()))
    kept, (_, header) = batches[:-1], batches[-1]
    log.write_bytes(b"".join(bytes(batch) for batch, _ in kept))
    for other in folder.iterdir():
        if other != log and other.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            other.unlink()
    (folder / f"{header.last_offset + 1:020d}.log").touch()


@pytest.fixture(scope="module")
def node(java_tool, tmp_path_factory):
    with ApacheKafka(java_tool.java, java_tool.jars, tmp_path_factory.mktemp("empty-ends")) as node:
        yield node


@pytest.mark.kafka
@pytest.mark.slow
def test_a_copy_comes_to_an_end_that_was_compacted_away(node, semel_server_session):
    log, topic = semel_server_session.bootstrap, f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(node.bootstrap) as admin:
        admin.create_topic(topic, 1)
    put(node.bootstrap, topic, [b"kept"] * 10)
    put(node.bootstrap, topic, [b"gone"] * 10)
    node.crash()
    without_its_last_batch(node.data_dir / f"{topic}-0")
    node.restart()
    tp = TopicPartition(topic, 0)
    with Cluster(node.bootstrap) as cluster:
        assert cluster.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset == 20
    plan = plan_of(node.bootstrap, log, topic, name=topic)
    stop = threading.Event()
    giving_up = threading.Timer(GIVES_UP_S, stop.set)
    giving_up.start()
    try:
        copied = run_copy(plan, until_end=True, stop=stop)
    finally:
        giving_up.cancel()
    assert not stop.is_set(), "it waits for offsets that have no rows"
    assert values(log, topic) == [b"kept"] * 10 and copied.lag == 0
    put(node.bootstrap, topic, [b"more"] * 5)
    go(plan)
    assert values(log, topic) == [b"kept"] * 10 + [b"more"] * 5
