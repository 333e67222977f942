"""Copies of a topic with batches that nobody can read: as they are, or without them, which a topic keeps then."""

from __future__ import annotations

import itertools

import pytest
from tests import poison
from tests.copy.copying import batches, go, plan_of, values

import semel
from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.errors import ConfigError, UnreadableBatch
from semel.types import TopicPartition

NUMBERS = itertools.count()
KINDS = list(poison.UNREADABLE.values())


@pytest.fixture
def log(semel_server_session):
    return semel_server_session.bootstrap


@pytest.fixture
def topic(log):
    """a, what nobody can read, odd rows, what nobody can read, and b."""
    name = f"unreadable-{next(NUMBERS)}"
    odd = poison.timeless(), poison.odd_header_key()
    poison.produce(
        log, TopicPartition(name, 0), poison.good(b"a"), KINDS[1], *odd, KINDS[3], poison.good(b"b")
    )
    return name


def job_of(log, topic, **choices):
    return plan_of(log, log, topic, name=topic, prefix="eu.", **choices)


def test_what_nobody_can_read_is_copied_as_it_is(log, topic):
    go(job_of(log, topic))
    source, copied = (
        [batch[57:] for batch, _ in batches(log, TopicPartition(name, 0))] for name in (topic, f"eu.{topic}")
    )
    assert copied == source


def test_a_condition_stops_there_and_goes_on_behind_it(log, topic):
    chosen = job_of(log, topic, where="value IS NOT NULL")
    for _ in range(2):
        with pytest.raises(UnreadableBatch, match=r"offset 1 .* --dead-letter TOPIC"):
            go(chosen)
        assert values(log, f"eu.{topic}") == [b"a"]
    going_on = job_of(log, topic, where="value IS NOT NULL", dead_letter_topic=f"{topic}.dead")
    for _ in range(2):
        go(going_on)
        assert values(log, f"eu.{topic}") == [b"a", b"old", b"older", b"odd", b"b"]
    with semel.Consumer(log) as consumer:
        consumer.assign([TopicPartition(f"{topic}.dead", 0)])
        found = consumer.poll(10)
    assert [dict(row.headers)["semel-at"].decode() for row in found] == [f"{topic}/0/1", f"{topic}/0/6"]
    assert [row.value[17:] for row in found] == [KINDS[1][17:], KINDS[3][17:]]
    with Cluster(log) as cluster:
        with pytest.raises(UnreadableBatch, match=r"offset 1 .* --dead-letter TOPIC leaves it out"):
            audit(cluster, AuditPlan(output_topic=f"eu.{topic}", input_topic=topic))
        proof = AuditPlan(output_topic=f"eu.{topic}", input_topic=topic, dead_letter_topic=f"{topic}.dead")
        report = audit(cluster, proof)
    assert report.holds, str(report.as_lines())
    assert "2 batches that nobody can read left out" in str(report.as_lines())


def test_the_letters_need_a_topic_of_their_own():
    with pytest.raises(ConfigError, match="a topic of its own"):
        job_of("localhost:1", "t", dead_letter_topic="eu.t")
