"""What a group has read of the source, it has read of the copy."""

from __future__ import annotations

import contextlib
import random
import uuid

import pytest
from tests.copy.copying import go, plan_of, put, rows
from tests.spark.mortal import Died, die, nothing

import semel
from semel.client.blocking import Cluster
from semel.types import EARLIEST_TIMESTAMP, TopicPartition


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def ends(request, semel_server_session):
    """From semel; to semel or to Apache Kafka."""
    source = semel_server_session.bootstrap
    return source, (source if request.param == "semel" else request.getfixturevalue("apache_kafka").bootstrap)


def row_at(bootstrap, tp, offset):
    """What a reader gets next from there; ``None`` at the end."""
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, offset)
        found = consumer.poll(1)
    return found[0].value if found else None


def test_a_position_is_that_of_the_same_next_row(ends):
    """Behind markers, others' rows and copies that were killed."""
    source, destination = ends
    topic, group = f"rows-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    here, there = TopicPartition(topic, 0), TopicPartition(f"eu.{topic}", 0)
    with semel.Admin(source) as admin:
        admin.create_topic(topic, 1)
    plan = plan_of(source, destination, topic, name=topic, prefix="eu.", groups=(group,))
    dice, sent = random.Random(7), 0
    with Cluster(source) as at_source, Cluster(destination) as at_destination:
        for turn in range(6):
            for _ in range(3):
                put(source, topic, [b"%d" % (sent + n) for n in range(20)])
                sent += 20
            if turn % 2:
                with contextlib.suppress(Died):
                    go(plan, at=5 + turn % 3, before=nothing, after=die)
                put(destination, there.topic, [b"somebody else's"] * 3)
            position = dice.randrange(sent - 60, sent + 1)
            at_source.commit_offsets(group, {here: position})
            go(plan)
            committed = at_destination.committed_offsets(group, [there])[there].offset
            if position == sent:
                assert row_at(destination, there, committed) in (None, b"somebody else's")
            else:
                assert row_at(destination, there, committed) == b"%d" % position
        assert [row["value"] for row in rows(destination, there.topic) if b"else" not in row["value"]] == [
            b"%d" % n for n in range(sent)
        ]


def test_a_group_is_never_put_back(ends):
    source, destination = ends
    topic, group = f"rows-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    here, there = TopicPartition(topic, 0), TopicPartition(f"eu.{topic}", 0)
    with semel.Admin(source) as admin:
        admin.create_topic(topic, 1)
    put(source, topic, [b"a"] * 20)
    plan = plan_of(source, destination, topic, name=topic, prefix="eu.", groups=(group, "another"))
    with Cluster(source) as at_source, Cluster(destination) as at_destination:
        at_source.commit_offsets(group, {here: 5})
        go(plan)
        start = at_destination.list_offsets({there: EARLIEST_TIMESTAMP})[there].offset
        assert at_destination.committed_offsets(group, [there])[there].offset == start + 5
        at_destination.commit_offsets(group, {there: start + 9})
        at_source.commit_offsets(group, {here: 7})
        go(plan)
        assert at_destination.committed_offsets(group, [there])[there].offset == start + 9
