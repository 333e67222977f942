"""What two runs of a flow owe each other, by the steps in front of a topic, and how a difference is told."""

from __future__ import annotations

import pyarrow as pa

from semel.flow import flow, source
from semel.flow.sameness import Sameness, differences, sameness

PEOPLE = "name string, n bigint, x double"


def same_of(built):
    plan = built.plan()
    counts = {own.name: own.partition_count for own in plan.own_topics} | dict.fromkeys(plan.source_topics, 1)
    found = sameness(plan.with_partition_counts(dict.fromkeys(plan.source_topics, 1)), counts)
    return found[plan.output_topics[0]]


def row_by_row(state, row):
    return state, row


def test_rows_and_typed_folds_are_the_same_in_their_order():
    people = source("people", json=PEOPLE)
    assert same_of(people.filter(lambda row: row.n).to("out")) is Sameness.IN_ORDER
    assert same_of(people.key_by("name").fold(row_by_row, init=0).to("out")) is Sameness.IN_ORDER


def test_a_ready_fold_owes_the_last_row_and_what_is_made_of_its_rows_nothing():
    people = source("people", json=PEOPLE).key_by("name")
    assert same_of(people.count().to("out")) is Sameness.LAST
    assert same_of(people.sum("n").to("out")) is Sameness.LAST
    assert same_of(people.count().filter(lambda row: row.count > 1).to("out")) is Sameness.NONE
    assert same_of(people.count().key_by("count").count("times").to("out")) is Sameness.NONE


def test_where_writers_meet_under_a_key_the_order_is_nobodys():
    people = source("people", json=PEOPLE).key_by("name").fold(row_by_row, init=0, schema=PEOPLE)
    assert same_of(people.key_by("n").to("out")) is Sameness.ANY_ORDER
    assert same_of(people.key_by("n").max("x").to("out")) is Sameness.LAST
    assert same_of(people.key_by("n").last().to("out")) is Sameness.NONE
    assert same_of(people.key_by("n").fold(row_by_row, init=0).to("out")) is Sameness.NONE


def test_several_inputs_meet_as_they_come():
    people, others = source("people", json=PEOPLE), source("others", json=PEOPLE)
    assert same_of(people.merge(others).key_by("name").count().to("out")) is not Sameness.IN_ORDER
    both = people.key_by("name").merge(others.key_by("name")).fold(row_by_row, init=0)
    assert same_of(both.to("out")) is Sameness.NONE
    assert same_of(flow("f", both.to("out"))) is Sameness.NONE


def test_a_difference_names_the_key_and_both_rows():
    one = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")]
    other = [(b"a", b"1"), (b"a", b"3"), (b"b", b"1")]
    (found,) = differences(Sameness.IN_ORDER, one, other)
    assert (found.key, found.what, found.is_missing) == (b"a", "row 2 was 2, and then 3", False)
    (found,) = differences(Sameness.LAST, one, other)
    assert found.what == "the last row was 2, and then 3"
    assert differences(Sameness.NONE, one, other) == []
    (found,) = differences(Sameness.IN_ORDER, one, one[:2])
    assert (found.what, found.is_missing) == ("row 2 was 2, and then not there", True)


def test_order_counts_only_where_it_is_promised():
    one, other = [(b"a", b"1"), (b"a", b"2")], [(b"a", b"2"), (b"a", b"1")]
    assert differences(Sameness.IN_ORDER, one, other)
    assert not differences(Sameness.ANY_ORDER, one, other)
    keyless = [[(None, value) for _, value in rows] for rows in (one, other)]
    assert not differences(Sameness.IN_ORDER, *keyless)
    assert differences(Sameness.IN_ORDER, keyless[0], keyless[1][:1])
    assert not differences(Sameness.LAST, keyless[0], keyless[1][:1])


def ranked(rows: pa.Table) -> pa.Table:
    return rows


def test_an_arrow_function_of_rows_is_held_to_the_order():
    assert same_of(source("people", json=PEOPLE).map(ranked, schema=PEOPLE).to("out")) is Sameness.IN_ORDER
