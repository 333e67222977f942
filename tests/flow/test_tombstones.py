"""A record without a value in a table's topic: it deletes its key's row through any topic in between, or is told."""

from __future__ import annotations

import pytest
from tests.flow.flowing import put, records, rows, run

import semel
from semel.core.dead_letter import WHY_HEADER
from semel.core.flow.pieces import STEP_HEADER
from semel.errors import StepFailed
from semel.flow import flow as flow_of
from semel.flow import source
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts

COLUMNS = "user string, country string"
ANN, BEN = {"user": "ann", "country": "AT"}, {"user": "ben", "country": "BE"}

users = source("users", json=COLUMNS, key="user")
unkeyed = source("users", json=COLUMNS)
more = source("more", json=COLUMNS, key="user")
clicks = source("clicks", json="user string")


def visits(table):
    return clicks.join(table, how="left").to("visits")


def in_a_country(row):
    return row.country != "XX"


def as_it_is(row):
    return row


LOOP = "several streams"  # the one that is looked at each time
PASSING = {
    "another number of partitions": users.key_by("user", partitions=2).as_table("user"),
    "a filter on its way to that": users.filter(in_a_country).key_by("user", partitions=2).as_table("user"),
    "several streams": users.merge(more).as_table("user"),
    "a name of its own": users.key_by("user", partitions=2).named("people").as_table("user"),
    "one part of it": users.branch(in_a_country)[0].key_by("user", partitions=2).as_table("user"),
    "no topic in between": users.filter(in_a_country).as_table("user"),
}


def bad(bootstrap, topic="visits.bad"):
    """Key, value, step and reason of each."""
    found = []
    for record in records(bootstrap, topic):
        headers = {pair["key"]: pair["value"].decode() for pair in record["headers"]}
        found.append((record["key"], record["value"], headers[STEP_HEADER], headers[WHY_HEADER]))
    return found


@pytest.fixture
def bootstrap(semel_server):
    """Of a server with the sources' topics."""
    with semel.Admin(semel_server.bootstrap) as admin:
        for topic in ("users", "more", "clicks"):
            admin.create_topic(topic, 1)
    return semel_server.bootstrap


def countries(bootstrap):
    return [(row["user"], row["country"]) for row in rows(bootstrap, "visits")]


@pytest.mark.parametrize(
    "way", [LOOP, *(pytest.param(way, marks=pytest.mark.thorough) for way in PASSING if way != LOOP)]
)
def test_a_tombstone_deletes_its_keys_row_through_the_topics_in_between(way, bootstrap, tmp_path):
    flow = visits(PASSING[way])
    put(bootstrap, "users", ANN, BEN, keys=[b"ann", b"ben"])
    put(bootstrap, "more", {"user": "eve", "country": "EE"}, keys=[b"eve"])
    run(flow, bootstrap, tmp_path)
    put(bootstrap, "users", None, keys=[b"ann"])
    run(flow, bootstrap, tmp_path, Cuts(rows_max=1, entries_max=1))
    put(bootstrap, "clicks", {"user": "ann"}, {"user": "ben"})
    run(flow, bootstrap, tmp_path)
    assert sorted(countries(bootstrap)) == [("ann", None), ("ben", "BE")]
    assert not bad(bootstrap)
    held = replay(flow.plan(), bootstrap)
    assert held.holds and held.is_complete


@pytest.mark.thorough
def test_a_row_behind_its_tombstone_is_there_again_in_whatever_pieces_they_come(bootstrap, tmp_path):
    flow = visits(PASSING["another number of partitions"])
    again = {"user": "ann", "country": "AU"}
    put(bootstrap, "users", ANN, None, BEN, None, again, keys=[b"ann", b"ann", b"ben", b"ben", b"ann"])
    run(flow, bootstrap, tmp_path, Cuts(rows_max=2))
    put(bootstrap, "clicks", {"user": "ann"}, {"user": "ben"})
    run(flow, bootstrap, tmp_path)
    assert sorted(countries(bootstrap)) == [("ann", "AU"), ("ben", None)]


@pytest.mark.thorough
def test_beside_a_table_a_stream_of_the_same_topic_tells_of_it_as_of_any_row_it_cannot_read(
    bootstrap, tmp_path
):
    keyed = users.key_by("user", partitions=2)
    both = flow_of(
        "both", clicks.join(keyed.as_table("user"), how="left").to("visits"), keyed.count().to("counts")
    )
    put(bootstrap, "users", ANN, None, BEN, keys=[b"ann", b"ann", b"ben"])
    run(both, bootstrap, tmp_path)
    put(bootstrap, "clicks", {"user": "ann"})
    run(both, bootstrap, tmp_path)
    assert countries(bootstrap) == [("ann", None)]
    assert sorted((row["user"], row["count"]) for row in rows(bootstrap, "counts")) == [
        ("ann", 1),
        ("ben", 1),
    ]
    assert [each[:2] for each in bad(bootstrap, "both.bad")] == [(b"ann", None)]


TOLD = {
    "not declared": unkeyed.as_table("user"),
    "made anew": users.map(as_it_is, schema=COLUMNS).as_table("user"),
    "another key": users.as_table("country"),
    "not declared of all": users.merge(source("more", json=COLUMNS)).as_table("user"),
    "made anew behind a topic": users.key_by("user", partitions=2)
    .map(as_it_is, schema=COLUMNS)
    .as_table("user"),
}


@pytest.mark.parametrize(
    "way", ["not declared", *(pytest.param(way, marks=pytest.mark.thorough) for way in list(TOLD)[1:])]
)
def test_where_nothing_says_whose_row_it_deletes_it_is_told_with_words_that_say_so(way, bootstrap, tmp_path):
    stream = source("clicks", json="country string") if way == "another key" else clicks
    flow = stream.join(TOLD[way], how="left").to("visits")
    put(bootstrap, "users", ANN, None, b"nonsense", BEN, keys=[b"ann", b"ann", b"ann", b"ben"])
    run(flow, bootstrap, tmp_path)
    put(bootstrap, "clicks", ANN)
    run(flow, bootstrap, tmp_path)
    assert countries(bootstrap) == [("ann", "AT")]
    (gone,) = [each for each in bad(bootstrap) if each[1] is None]
    (other,) = [each for each in bad(bootstrap) if each[1] is not None]
    assert gone[0] == b"ann" and "deletes a row of the table" in gone[3] and "key=" in gone[3]
    assert other[1] == b"nonsense" and "table" not in other[3]


def test_without_a_key_it_deletes_nothing_and_is_told(bootstrap, tmp_path):
    flow = visits(PASSING["another number of partitions"])
    put(bootstrap, "users", ANN, None, keys=[b"ann", None])
    run(flow, bootstrap, tmp_path)
    assert [each[3] for each in bad(bootstrap)] == ["it has neither a key nor a value"]


def test_what_the_source_says_of_its_keys_is_proven_where_a_tombstone_would_go_by_it(bootstrap, tmp_path):
    flow = visits(PASSING["another number of partitions"])
    put(bootstrap, "users", ANN, BEN, keys=[b"ann", b"17"])
    with pytest.raises(
        StepFailed, match=r"users.*offset 1.*the record's key is not what its column user says"
    ):
        run(flow, bootstrap, tmp_path)
