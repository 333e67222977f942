"""Copies of the rows that a condition holds for."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import replace

import pytest
from tests.copy.copying import batches, go, plan_of, put, rows, values
from tests.spark.mortal import Died, die, nothing

import semel
from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.errors import ConfigError
from semel.types import TopicPartition


@pytest.fixture
def log(semel_server_session):
    return semel_server_session.bootstrap


@pytest.fixture
def topic(log):
    """One that nobody has, with two partitions."""
    name = f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(name, 2)
    return name


def job_of(log, topic, **choices):
    """In one log, under names of its own."""
    return plan_of(log, log, topic, name=topic, prefix="eu.", **choices)


def test_rows_that_a_condition_holds_for(log, topic):
    """``semel audit`` proves it with the same condition; another one holds from where the job goes on."""
    even = "value ->> 'n' % 2 = 0"
    put(log, topic, [b'{"n": %d}' % n for n in range(400)])
    put(log, topic, [b'{"n": %d}' % (2 * n) for n in range(100)])
    assert go(job_of(log, topic, where=even))[0].rows == 300
    with Cluster(log) as cluster:
        plan = AuditPlan(output_topic=f"eu.{topic}", input_topic=topic, where=even)
        assert audit(cluster, plan).holds
        assert not audit(cluster, replace(plan, where=None)).holds
    for number in range(2):
        assert rows(log, f"eu.{topic}", number) == [
            row for row in rows(log, topic, number) if json.loads(row["value"])["n"] % 2 == 0
        ]
        sent, stored = (batches(log, TopicPartition(name, number)) for name in (topic, f"eu.{topic}"))
        assert stored[-1][0][61:] == sent[-1][0][61:]  # it holds for all of it
    put(log, topic, [b'{"n": %d}' % n for n in range(1000, 1010)])
    assert go(job_of(log, topic, where="value ->> 'n' < 1003"))[0].rows == 3


def test_a_row_that_a_condition_cannot_be_judged_on_stops_the_copy(log, topic):
    put(log, topic, [b'{"n": 1}'] * 7)
    go(job_of(log, topic, where="value ->> 'n' = 1"))
    put(log, topic, [b"no JSON", b'{"n": 1}'])
    with pytest.raises(ConfigError, match=rf"{topic}-\d offset \d+: --where .* nothing is lost.*json_valid"):
        go(job_of(log, topic, where="value ->> 'n' = 1"))
    assert go(job_of(log, topic, where="json_valid(value) AND value ->> 'n' = 1"))[0].rows == 1


def test_a_copy_reads_json_as_a_flow_does(log, topic):
    """Of a doubled key the last one counts, whatever the machine's SQLite takes."""
    put(log, topic, [b'{"id":3,"id":4}', b'{"id":4,"id":3}', b"{id:4}", b'{"id":4}\x00'])
    assert go(job_of(log, topic, where="json_valid(value) AND value ->> 'id' = 4"))[0].rows == 1
    (copied,) = [value for number in range(2) for value in values(log, f"eu.{topic}", number)]
    assert copied == b'{"id":3,"id":4}'  # as it came


def test_what_does_not_hold_is_not_read_again(log, topic, monkeypatch):
    """A copy that was killed has said before how far it was read: what was trimmed up to there is no loss."""
    monkeypatch.setattr("semel.copy.writing.PASSED_EVERY_MS", 0)
    monkeypatch.setattr("semel.copy.reading.PARTITION_BYTES_MAX", 1)  # a batch at a time
    for _ in range(5):
        put(log, topic, [b"other"] * 20)
    plan = job_of(log, topic, where="value = 'wanted'")
    with pytest.raises(Died):
        go(plan, at=10, before=die, after=nothing)
    with semel.Admin(log) as admin:
        admin.delete_records({TopicPartition(topic, number): 1 for number in range(2)})
    put(log, topic, [b"wanted"] * 7)
    assert go(plan)[0].rows == 7


def test_rows_here_and_there_of_more_than_one_record_of_the_journal(log, topic, monkeypatch):
    monkeypatch.setattr("semel.copy.writing.SPANS_MAX", 10)
    for turn in range(4):
        put(log, topic, [b"%d" % (turn * 100 + n) for n in range(100)])
    plan = job_of(log, topic, where="offset % 2 = 0")
    for at in (6, 8, 11):
        with contextlib.suppress(Died):
            go(plan, at=at, before=nothing, after=die)
    go(plan)
    for number in range(2):
        assert values(log, f"eu.{topic}", number) == values(log, topic, number)[::2]
