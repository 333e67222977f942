"""The merge log on a real Apache Kafka: transactions in its inputs, compaction, and the same laws as anywhere."""

from __future__ import annotations

import contextlib
import time
import uuid

import pytest
from confluent_kafka import Producer
from tests.flow.merging import Merging

from semel.client.blocking import Cluster
from semel.errors import BrokerError, DataLoss, PlanNotSupported, SinkFenced
from semel.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def of(apache_kafka):
    """Two partitions, so that one request is for several."""
    with (
        Cluster(apache_kafka.bootstrap) as cluster,
        contextlib.closing(Merging(apache_kafka.bootstrap, cluster, 2)) as merging,
    ):
        yield merging


def test_planners_take_over_from_each_other(of):
    of.write(of.clicks, 5)
    of.write(of.users, 3, 1)
    first = of.planner().take_over(1)
    ends = first.plan(rows_max=2)
    of.write(of.users, 2)
    second = of.planner("the second").take_over(2, ends)
    with pytest.raises(SinkFenced, match="the second"):
        first.plan(ends)
    more = second.plan(ends)
    assert of.reader().ranges(more[0]) == [("c", 0, 2), ("c", 2, 4), ("c", 4, 5), ("u", 0, 2)]
    assert of.reader().ranges(more[1], 1) == [("u", 0, 2), ("u", 2, 3)]
    assert of.reader().ranges(more[0], 0, ends[0]) == [("u", 0, 2)]


def test_an_append_whose_answer_was_lost_counts_once(of):
    of.write(of.clicks, 4)
    planner = of.planner().take_over(1)
    planner.cluster.answers_to_lose = 2
    ends = planner.plan(rows_max=2)
    assert len(of.records()) == 1 + 3 * 2
    assert of.reader().ranges(ends[0]) == [("c", 0, 2), ("c", 2, 4)]
    of.write(of.clicks, 1)
    assert of.reader().ranges(planner.plan(ends)[0], 0, ends[0]) == [("c", 4, 5)]


def test_ranges_end_where_an_open_transaction_begins(of):
    of.write(of.users, 2)
    producer = Producer({"bootstrap.servers": of.bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(of.users, b"open", partition=0)
    producer.flush()
    of.write(of.users, 3)
    planner = of.planner().take_over(1)
    ends = planner.plan()
    assert planner.ranges(ends[0]) == [("u", 0, 2)]
    assert planner.plan(ends) == ends
    producer.abort_transaction()
    give_up_s = time.monotonic() + 30
    while (more := planner.plan(ends)) == ends:
        assert time.monotonic() < give_up_s
    assert planner.ranges(more[0], 0, ends[0]) == [("u", 2, 7)]  # the marker takes an offset


def test_compacted_inputs_and_a_compacted_merge_log_are_refused(of):
    of.cluster.alter_configs({of.users: {"cleanup.policy": "compact"}})
    with pytest.raises(PlanNotSupported, match=r"'users-.*cleanup.policy=compact"):
        of.planner().take_over(1)
    of.cluster.alter_configs(
        {of.users: {"cleanup.policy": None}, of.topic: {"cleanup.policy": "compact,delete"}}
    )
    with pytest.raises(PlanNotSupported, match=r"'visits-.*cleanup.policy=compact"):
        of.planner().take_over(1)
    assert of.values() == []


def test_an_input_made_anew_or_trimmed_stops_it(of):
    of.write(of.clicks, 5)
    of.write(of.users, 5)
    planner = of.planner().take_over(1)
    ends = planner.plan()
    of.write(of.users, 5)
    of.cluster.delete_records({TopicPartition(of.users, 0): 6})
    with pytest.raises(DataLoss, match=r"offsets 5 to 5 of topic 'users-.*retention or a trim"):
        planner.plan(ends)
    of.cluster.delete_topics([of.clicks])
    give_up_s = time.monotonic() + 30
    while True:
        try:
            of.create(of.clicks)
            break
        except BrokerError:  # the one before is going
            assert time.monotonic() < give_up_s
            time.sleep(0.1)
    of.write(of.clicks, 9)
    with pytest.raises(DataLoss, match=r"'clicks-.*made anew"):
        of.planner().take_over(2, ends)
