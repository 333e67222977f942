"""Nobody but a flow writes into the topics that it makes for itself; it is asked before anything is written."""

from __future__ import annotations

import pytest
from tests.copy.copying import go, plan_of
from tests.flow.flowing import put, rows, run

import semel
from semel.core.sink.routing import Routing
from semel.errors import ConfigError
from semel.flow import source
from semel.flow.replay import replay
from semel.spark.batch_sink import plan_write
from semel.spark.known_sinks import known_sinks
from semel.spark.options import Connection, SinkOptions
from semel.spark.output import PARTITIONER
from semel.spark.owners import owner_of
from semel.spark.process import connect
from semel.spark.runs import plan_batch

WORDS = source("words", json="word string, n bigint")
OWN = [
    "counts.words-by-word",
    "counts.words-by-word-count.merge",
    "counts.words-by-word-count.changelog",
    "counts.bad",
    "counts.late",
]


@pytest.fixture
def counts(semel_server, tmp_path):
    """A flow that has run, and whose topics others try to write."""
    flow = WORDS.key_by("word").count().to("counts")
    put(semel_server.bootstrap, "words", {"word": "a"}, {"word": "b"})
    run(flow, semel_server.bootstrap, tmp_path)
    yield flow
    assert replay(flow.plan(), semel_server.bootstrap).holds


@pytest.mark.parametrize("topic", OWN)
def test_a_flow_does_not_write_into_another_ones_own_topics(semel_server, counts, tmp_path, topic):
    with pytest.raises(
        ConfigError, match=f"{topic}.* is one that flow 'counts' makes for itself.* written nothing"
    ):
        run(WORDS.filter(bool).to(topic), semel_server.bootstrap, tmp_path)
    assert not [sink for sink in known_sinks(semel_server.bootstrap) if not sink.startswith("counts/")]


def test_nor_does_a_sink_of_sparks_or_a_copy(semel_server, counts):
    bootstrap, connection = semel_server.bootstrap, Connection(semel_server.bootstrap)
    for topic in OWN:
        plain = SinkOptions(connection, topic, "mine", Routing(None, ("key",), PARTITIONER))
        with pytest.raises(ConfigError, match="makes for itself"):
            plan_batch(plain, "q")
        with pytest.raises(ConfigError, match="makes for itself"):
            plan_write(plain)
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("words-by-word", 4)
    with pytest.raises(ConfigError, match=r"makes for itself.*Nothing was copied"):
        go(plan_of(bootstrap, bootstrap, "words-by-word", prefix="counts.", appends=True))


def test_whose_topic_it_is(semel_server, counts, tmp_path):
    """A user's topic is nobody's, whatever its name is like, and one output may be several flows'."""
    bootstrap = semel_server.bootstrap
    cluster, connection = connect(Connection(bootstrap)), Connection(bootstrap)
    with semel.Admin(bootstrap) as admin:
        for name in ("counts.mine", "counts.mine.merge", "other.bad", "x"):
            admin.create_topic(name, 1)
    owners = {
        topic: owner_of(cluster, connection, topic)
        for topic in (
            *OWN,
            "counts",
            "words",
            "counts.mine",
            "counts.mine.merge",
            "other.bad",
            "x",
            "not.there",
        )
    }
    assert owners == dict.fromkeys(owners, None) | dict.fromkeys(OWN, "counts")
    run(
        WORDS.map(lambda row: {"word": row.word}, schema="word string").to("counts").named("again"),
        bootstrap,
        tmp_path,
    )
    assert len(rows(bootstrap, "counts")) == 4


def test_a_new_flow_does_not_count_what_others_have_put_into_its_topics(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    configs = {"retention.ms": "-1", "retention.bytes": "-1"}
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("counts.words-by-word", 4, configs=configs)
    put(bootstrap, "words", {"word": "a"})
    put(bootstrap, "counts.words-by-word", {"word": "a"}, keys=[b"a"])
    flow = WORDS.key_by("word").count().to("counts")
    with pytest.raises(ConfigError, match="it has rows, though stage 'words-by-word' was never started"):
        run(flow, bootstrap, tmp_path)
    with semel.Admin(bootstrap) as admin:
        admin.delete_topic("counts.words-by-word")
    run(flow, bootstrap, tmp_path)
    assert rows(bootstrap, "counts") == [{"word": "a", "count": 1}]
