"""Exclusive producer: where the input continues, by counting the rows that an identity has stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.exclusive import Continues, InputPartition, NotExclusive, WhyNot, continues, first_gap
from semel.core.flow.steps import Filter, FlatMap, Map, OnInputs

INPUT = InputPartition("clicks-0", 100, 100, 150)
MAP = Map.of(lambda row: row)


def test_with_one_output_partition_the_input_goes_on_behind_the_rows_that_stand_there():
    assert continues(INPUT, {}, 1, (MAP, OnInputs(MAP, (0,)))) == Continues(100, range(100, 100))
    found = continues(INPUT, {3: 7}, 1)
    assert found == Continues(107, range(100, 107))
    assert found.take([3, 3]).tolist() == [True, True]


def test_with_several_the_rows_that_stand_there_are_passed_over():
    found = continues(INPUT, {0: 2, 1: 0}, 2)
    assert isinstance(found, Continues) and found.offset == 100
    assert found.take([0, 1]).tolist() == [False, True]
    assert found.take([1, 0, 0]).tolist() == [True, False, True]
    assert not found.left_over


@pytest.mark.parametrize(
    "changes, stored, steps, why",
    [
        ({}, {0: 1}, (Filter.of(bool),), WhyNot.NOT_ONE_TO_ONE),
        ({}, {0: 1}, (MAP, FlatMap.of(list)), WhyNot.NOT_ONE_TO_ONE),
        ({}, {0: 1}, (OnInputs(Filter.of(bool), (0,)),), WhyNot.NOT_ONE_TO_ONE),
        ({"is_compacted": True}, {}, (), WhyNot.GAPS),
        ({"log_start_offset": 101}, {0: 5}, (), WhyNot.TRIMMED),
        ({}, {0: 30, 1: 21}, (), WhyNot.OTHER_INPUT),
    ],
)
@pytest.mark.parametrize("output_partition_count", [1, 2])
def test_refusals(changes, stored, steps, why, output_partition_count):
    refused = continues(replace(INPUT, **changes), stored, output_partition_count, steps)
    assert isinstance(refused, NotExclusive) and refused.why is why
    assert "clicks-0" in refused.evidence


def test_rows_that_cannot_be_counted_any_more_are_refused():
    refused = continues(INPUT, {0: 3}, 1, trimmed_partitions=[0])
    assert isinstance(refused, NotExclusive) and refused.why is WhyNot.OUTPUT_TRIMMED


def test_the_sum_says_nothing_where_a_row_between_is_still_under_way():
    """Rows 0 and 2 stand in partition 0, and row 1, for partition 1, does not: going on at row 2 would lose it."""
    found = continues(INPUT, {0: 2}, 2)
    assert isinstance(found, Continues)
    assert found.take([0, 1, 0]).tolist() == [False, True, False]


def test_each_offset_has_to_be_a_row():
    assert first_gap(INPUT, 100, np.array([100, 101, 102])) is None
    assert first_gap(INPUT, 100, np.array([], dtype=np.int64)) is None
    refused = first_gap(INPUT, 100, np.array([100, 102]))
    assert refused is not None and refused.why is WhyNot.GAPS and "offset 101" in refused.evidence


@given(
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)), max_size=4),
    st.integers(1, 5),
)
def test_a_writer_that_dies_anywhere_stores_each_row_once_in_order(routes: list[int], lives: Any, fetch: int):
    """A life stores some of its rows to each partition, in order; how many is up to the network."""
    stored: dict[int, list[int]] = {0: [], 1: [], 2: []}
    read = InputPartition("t-0", 0, 0, len(routes))
    for most in [*lives, (99, 99, 99)]:
        found = continues(read, {partition: len(rows) for partition, rows in stored.items()}, 3)
        assert isinstance(found, Continues)
        sent: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for begin in range(found.offset, len(routes), fetch):
            part = routes[begin : begin + fetch]
            for row, wanted in enumerate(found.take(part).tolist()):
                if wanted:
                    sent[part[row]].append(begin + row)
        for partition, rows in sent.items():
            stored[partition] += rows[: most[partition]]
    for partition, rows in stored.items():
        assert rows == [number for number, route in enumerate(routes) if route == partition]
