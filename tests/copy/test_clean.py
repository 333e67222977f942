"""Copies of topics whose writer has doubled rows: each comes once."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from tests.copy.copying import go, plan_of, rows, values
from tests.spark.mortal import Died, die, nothing
from tests.thinning import every

import semel
from semel.core.flow.lineage import Lineage
from semel.errors import ConfigError

REQUESTS = 16  # that change something, with the fetches of these tests
ORIGIN = uuid.UUID(int=7)


@pytest.fixture
def log(semel_server_session):
    return semel_server_session.bootstrap


@pytest.fixture
def topic(log):
    name = f"dirty-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(name, 2)
    return name


def job_of(log, topic, **choices):
    return plan_of(log, log, topic, **{"name": topic, "prefix": "clean.", "cleans": True, **choices})


def write(log, topic, first, last):
    """Rows that came of two partitions of one source, each to its own partition; one batch a partition."""
    with semel.Producer(log) as producer:
        for number in range(first, last):
            for partition in range(2):
                lineage = Lineage("clicks", partition, number // 2, number % 2, ORIGIN)
                producer.send(topic, b"%d" % number, partition=partition, headers=[lineage.header()])


def write_doubled(log, topic, first):
    """What a sink does that is at least once: it goes back to its last checkpoint, several times."""
    for start, end in ((0, 20), (7, 25), (7, 12), (0, 40), (38, 60)):
        write(log, topic, first + start, first + end)


def check(log, topic, count):
    for number in range(2):
        assert values(log, f"clean.{topic}", number) == [b"%d" % n for n in range(count)]


def test_each_row_comes_once(log, topic):
    write_doubled(log, topic, 0)
    assert go(job_of(log, topic))[0].rows == 120
    check(log, topic, 60)
    write(log, topic, 30, 70)  # of what a run before this one has copied, too
    assert go(job_of(log, topic))[0].rows == 20
    check(log, topic, 70)
    assert rows(log, f"clean.{topic}")[3]["headers"] == [
        dict(zip(("key", "value"), Lineage("clicks", 0, 1, 1, ORIGIN).header(), strict=True))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("step", every(9, range(3, REQUESTS)))
def test_killed_at_any_request(log, topic, step, is_sent, monkeypatch):
    monkeypatch.setattr("semel.copy.writing.PASSED_EVERY_MS", 0)
    before, after = (nothing, die) if is_sent else (die, nothing)
    for turn, at in enumerate((step, step * 5 % REQUESTS, step - 2)):
        write_doubled(log, topic, turn * 60)
        monkeypatch.setattr("semel.copy.reading.PARTITION_BYTES_MAX", (4_000_000, 1, 600)[turn])
        monkeypatch.setattr("semel.copy.writing.SPANS_MAX", 0 if turn == 2 else 100_000)
        with contextlib.suppress(Died):
            go(job_of(log, topic), at=at, before=before, after=after)
    write(log, topic, 100, 180)
    go(job_of(log, topic))
    check(log, topic, 180)


def test_a_row_without_the_header_stops_it(log, topic):
    write(log, topic, 0, 3)
    with semel.Producer(log) as producer:
        producer.send(topic, b"who knows", partition=1)
    with pytest.raises(ConfigError, match=rf"{topic}-1 offset 3: .*semel-lineage.*nothing is lost"):
        go(job_of(log, topic))


def test_a_job_that_cleans_is_one_that_cleans(log, topic):
    write(log, topic, 0, 3)
    go(job_of(log, topic))
    with pytest.raises(ConfigError, match="has copied with --clean"):
        go(job_of(log, topic, cleans=False))
    other = {"name": f"other-{topic}", "prefix": "plain."}
    go(job_of(log, topic, cleans=False, **other))
    with pytest.raises(ConfigError, match="has copied without --clean"):
        go(job_of(log, topic, **other))
    with pytest.raises(ConfigError, match="do not go together"):
        job_of(log, topic, where="offset > 5")


def test_marks_are_bounded(log, topic, monkeypatch):
    monkeypatch.setattr("semel.copy.reading.MARKS_MAX", 1)
    write(log, topic, 0, 3)
    with pytest.raises(ConfigError, match=r"2 source partitions.*nothing is lost"):
        go(job_of(log, topic))
    assert values(log, f"clean.{topic}") == []
