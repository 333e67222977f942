"""A source log that lost its end and grew: what was read is told as lost, and nothing is left out in silence.

The source's own calls, in Spark's order.
"""

from __future__ import annotations

import json
import logging

import pytest
from tests.lost_end import lose_end, older_copy
from tests.spark.conftest import forget_clusters
from tests.spark.test_topic_made_anew import Query, numbers

from semel.client.blocking import Cluster
from semel.errors import DataLoss
from semel.spark import reading
from semel.spark.offsets import epochs_from_json
from semel.spark.reading import read_range
from semel.types import TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")
TP = TopicPartition("t", 0)
LOST = "all offsets from 4 on of topic 't', partition 0 are gone: the log has lost its end since it was read up to"
UNKNOWN = "the log knows nothing of leader epoch"  # of a log that was put back within a second


@pytest.fixture
def server(semel_server_factory):
    yield semel_server_factory(durability="page-cache")
    forget_clusters()  # another server may come to have its port


@pytest.fixture
def own(server, log_of):
    """What tests ask of it."""
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"t": 1})
        yield log_of(server.bootstrap, cluster)


def write(own, first: int, end: int) -> None:
    for number in range(first, end, 2):
        own.write("t", numbers(number, number + 2))


def kept(query: Query, *lacks: str) -> None:
    """The query goes on from its checkpoint, in which Spark keeps JSON."""
    query.offset = json.loads(json.dumps(query.offset))
    for name in lacks:
        for of_topic in query.offset.values():
            of_topic.pop(name, None)
    query.restart()


@pytest.mark.parametrize("lost", ["at a batch's end", pytest.param("put back", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("grown", [16, 10], ids=["longer", "as long, and then longer"])
def test_it_is_a_loss(server, own, tmp_path, lost, grown):
    write(own, 0, 4)
    put_back = older_copy(server, tmp_path / "copy") if lost == "put back" else None
    write(own, 4, 10)
    query = Query(own, "t")
    assert query.micro_batch() == numbers(0, 10)
    put_back() if put_back is not None else lose_end(server, "t", 4)
    told = LOST if put_back is None else f"{LOST}|{UNKNOWN}"
    write(own, 100, 100 + grown - 4)
    kept(query)
    if grown == 10:
        assert query.micro_batch() is None
        write(own, 200, 204)
    for _ in range(2):
        with pytest.raises(DataLoss, match=told):
            query.micro_batch()
        query.restart()


def test_a_partition_that_stands_still_while_others_move_is_told_when_it_moves(server, own):
    own.cluster.create_topics({"u": 1})
    write(own, 0, 10)
    query = Query(own, "t,u")
    assert query.micro_batch() == numbers(0, 10)
    lose_end(server, "t", 4)
    write(own, 100, 106)
    own.write("u", numbers(0, 1))
    assert query.micro_batch() == numbers(0, 1)
    assert query.offset["t"]["0"] == 10
    write(own, 200, 202)
    with pytest.raises(DataLoss, match=LOST):
        query.micro_batch()


def test_who_wants_no_error_goes_on_behind_what_was_read_with_a_warning(server, own, caplog):
    write(own, 0, 10)
    query = Query(own, "t", failOnDataLoss="false")
    assert query.micro_batch() == numbers(0, 10)
    lose_end(server, "t", 4)
    write(own, 100, 112)
    kept(query)
    with caplog.at_level(logging.WARNING, "semel.spark"):
        assert query.micro_batch() == numbers(106, 112)
    assert "the log of t-0 has lost its end, from offset 4 on, and was read up to 10" in caplog.text
    write(own, 300, 302)
    assert query.micro_batch() == numbers(300, 302), "and knows the log of now"


@pytest.mark.parametrize(
    "lacks", [("leader_epochs",), ("leader_epochs", "topic_id")], ids=["older", "Spark's"]
)
def test_a_checkpoint_without_epochs_is_taken_and_has_them_with_the_next_micro_batch(server, own, lacks):
    write(own, 0, 10)
    query = Query(own, "t")
    query.micro_batch()
    kept(query, *lacks)
    assert epochs_from_json(query.offset) == {}
    assert query.micro_batch() is None, "they alone are no reason for one"
    write(own, 10, 12)
    assert query.micro_batch() == numbers(10, 12)
    assert epochs_from_json(query.offset).keys() == {TP}
    lose_end(server, "t", 4)
    write(own, 100, 112)
    with pytest.raises(DataLoss, match=LOST):
        query.micro_batch()


def test_a_restart_that_lost_nothing_stops_nobody(server, own):
    write(own, 0, 4)
    query = Query(own, "t")
    assert query.micro_batch() == numbers(0, 4)
    server.restart()
    server.restart()  # nothing is written under the epoch in between
    kept(query)
    assert query.micro_batch() is None
    write(own, 4, 8)
    assert query.micro_batch() == numbers(4, 8)


def test_a_start_at_the_end_is_held_against_it_too(server, own):
    write(own, 0, 10)
    query = Query(own, "t", startingOffsets="latest")
    lose_end(server, "t", 4)
    write(own, 100, 112)
    with pytest.raises(DataLoss, match=LOST):
        query.micro_batch()


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_an_epoch_that_the_log_knows_nothing_of_is_waited_for_and_then_told(
    own, monkeypatch, fail_on_data_loss
):
    """As of a log that was put back by somebody whose clock is wrong."""
    monkeypatch.setattr(reading, "_EPOCH_PATIENCE_MS", 0)
    write(own, 0, 10)

    def read(first: int) -> list:
        fetches = read_range(
            own.cluster, TP, first, 10, last_leader_epoch=2**31 - 1, fail_on_data_loss=fail_on_data_loss
        )
        return [header.base_offset for batches in fetches for _, header in batches]

    if fail_on_data_loss:
        with pytest.raises(DataLoss, match=UNKNOWN):
            read(4)
    else:
        assert read(4) == [4, 6, 8]
        own.cluster.delete_records({TP: 6})
        assert read(4) == [6, 8], "it is the offset that is not there"
