"""An output that lost rows which are decided, and grew again: the next driver says so; no JVM."""

from __future__ import annotations

import pytest
from tests.lost_end import lose_end
from tests.spark.conftest import forget_clusters
from tests.spark.driving import Driver, numbers

from semel.client.blocking import Cluster
from semel.core.sink.journal import decode, encode
from semel.errors import DataLoss
from semel.spark import output_marks
from semel.spark.options import Connection, SinkOptions
from semel.spark.sink_log import SinkLog
from semel.types import TopicPartition

OUT = TopicPartition("out", 0)
pytestmark = pytest.mark.usefixtures("own_caches")


@pytest.fixture
def server(semel_server_factory):
    yield semel_server_factory(durability="page-cache")
    forget_clusters()  # another server may come to have its port


@pytest.fixture
def own(server, log_of):
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"out": 1})
        yield log_of(server.bootstrap, cluster)


@pytest.fixture
def driver(server, own):
    """It has decided rows at offsets 0 to 9, in batches of up to three."""
    driver = Driver(SinkOptions(Connection(server.bootstrap, "test"), "out", "s"))
    driver.micro_batch(0, 10, 0)
    return driver


def another(driver: Driver) -> Driver:
    forget_clusters()
    return Driver(driver.options)


@pytest.mark.parametrize("grown", [0, 7, 30], ids=["not grown", "as long", "longer"])
def test_the_next_driver_stops(server, own, driver, monkeypatch, grown):
    monkeypatch.setattr(output_marks, "PATIENCE_MS", 0)
    lose_end(server, "out", 3)
    if grown:
        own.write("out", numbers(100, 100 + grown))
    for _ in range(2):
        with pytest.raises(DataLoss, match="decided up to offset 10, and the log has lost its end since"):
            another(driver).plan()


def test_a_log_that_has_all_of_it_stops_nobody(server, own, driver):
    for batch_id in (1, 2):
        server.restart()  # another leader
        own.write("out", numbers(100, 110))
        another(driver).micro_batch(10 * batch_id, 10 * batch_id + 10, batch_id)
    server.restart()
    own.cluster.delete_records({OUT: own.offset(OUT, -1)})
    another(driver).plan()


def test_decisions_of_before_say_nothing_of_it_and_are_taken(server, driver):
    history = SinkLog(driver.options.connection, "s").history()
    key_and_value = encode(history.decision)
    assert history.decision.output_marks[OUT].end_offset == 10
    assert decode(key_and_value[1]) == history.decision
    older = key_and_value[1].replace(b'"output_marks"', b'"unknown"')
    assert decode(older).output_marks == {}
