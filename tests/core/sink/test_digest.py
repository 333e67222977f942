"""A digest depends on the rows and their order, and on nothing else."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semel.core.sink.digest import NO_ROWS, Digest, order_free_hash

CELL = st.none() | st.binary(max_size=5)
HEADERS = st.lists(st.tuples(st.text(max_size=3), CELL), max_size=2)
ROWS = st.lists(st.tuples(CELL, CELL, HEADERS), max_size=12)
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def digest(*pieces) -> Digest:
    result = NO_ROWS
    for rows in pieces:
        result = result.over(
            pa.array([key for key, _, _ in rows], pa.binary()),
            pa.array([value for _, value, _ in rows], pa.binary()),
            pa.array([[{"key": k, "value": v} for k, v in headers] for _, _, headers in rows], HEADERS_TYPE),
        )
    return result


@given(ROWS, st.integers(0, 12))
def test_cuts_do_not_matter(rows, cut):
    assert digest(rows) == digest(rows[:cut], rows[cut:])


@given(ROWS, ROWS)
def test_other_rows_have_another_digest(rows, others):
    assert (digest(rows) == digest(others)) == (rows == others)


@given(ROWS)
def test_slices_of_a_larger_array_are_what_they_hold(rows):
    keys = pa.array([b"before", *[key for key, _, _ in rows], None], pa.binary())[1 : len(rows) + 1]
    values = pa.array([None, *[value for _, value, _ in rows], b"after"], pa.binary())[1 : len(rows) + 1]
    bare = [(key, value, []) for key, value, _ in rows]
    assert NO_ROWS.over(keys, values) == digest(bare)


@given(ROWS)
def test_survives_the_decision_log(rows):
    assert Digest.from_list(digest(rows).to_list()) == digest(rows)


def test_a_null_and_an_empty_value_differ():
    assert digest([(None, b"", [])]) != digest([(None, None, [])]) != digest([(b"", None, [])])


def test_no_keys_column_is_a_column_of_nulls():
    values = pa.array([b"a", b"b"])
    assert NO_ROWS.over(None, values) == NO_ROWS.over(pa.array([None, None], pa.binary()), values)


def hashed(rows, topic: str = "t") -> int:
    return order_free_hash(
        topic,
        pa.array([key for key, _, _ in rows], pa.binary()),
        pa.array([value for _, value, _ in rows], pa.binary()),
        pa.array([[{"key": k, "value": v} for k, v in headers] for _, _, headers in rows], HEADERS_TYPE),
    )


@given(ROWS, st.integers(0, 12), st.randoms(use_true_random=False))
def test_the_order_free_hash_is_of_the_rows_alone(rows, cut, random):
    shuffled = random.sample(rows, len(rows))
    assert hashed(rows) == (hashed(shuffled[:cut]) + hashed(shuffled[cut:])) % 2**64


@given(ROWS, ROWS)
def test_other_rows_have_another_order_free_hash(one, two):
    def as_set(rows):
        return sorted(repr(row) for row in rows)

    assert (hashed(one) == hashed(two)) == (as_set(one) == as_set(two))


def test_the_order_free_hash_tells_topics_null_keys_and_slices_apart():
    values = pa.array([b"a", b"b", b"c"], pa.binary())
    nulls = pa.array([None] * 3, pa.binary())
    assert order_free_hash("t", None, values) == order_free_hash("t", nulls, values)
    assert order_free_hash("t", None, values) != order_free_hash("u", None, values)
    assert order_free_hash("t", None, values) != order_free_hash(
        "t", pa.array([b""] * 3, pa.binary()), values
    )
    assert order_free_hash("t", None, values[1:]) == order_free_hash(
        "t", None, pa.array([b"c", b"b"], pa.binary())
    )
    assert order_free_hash("t", values, nulls) != order_free_hash("t", nulls, values)
