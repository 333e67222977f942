"""Rows of one value, and the folders that hold them."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.partitioning import Part, parts


@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "c"]))))
def test_each_row_is_in_the_part_of_its_value_in_order(values: list[str | None]) -> None:
    rows = pa.table({"v": pa.array(values, pa.string()), "n": pa.array(range(len(values)), pa.int64())})
    found: dict[int, str | None] = {}
    for part, its in parts(rows, "v"):
        assert part is not None and its.column_names == ["n"]
        numbers = its.column("n").to_pylist()
        assert numbers == sorted(numbers)
        assert not found.keys() & set(numbers)
        found |= dict.fromkeys(numbers, part.value)
    assert found == {index: value or None for index, value in enumerate(values)}


def test_without_a_column_all_rows_are_one_part() -> None:
    rows = pa.table({"n": [1, 2]})
    assert list(parts(rows, None)) == [(None, rows)]


@pytest.mark.parametrize(
    ("value", "folder"),
    [("a", "v=a"), (None, "v=__HIVE_DEFAULT_PARTITION__"), ("a/b =%", "v=a%2Fb%20%3D%25"), ("..", "v=..")],
)
def test_a_folder_is_named_so_that_no_value_leaves_the_table(value: str | None, folder: str) -> None:
    assert Part("v", value).folder == folder


def test_dates_and_numbers_are_told_as_delta_tells_them() -> None:
    for array, text in ((pa.array([date(2024, 2, 9)]), "2024-02-09"), (pa.array([-3]), "-3")):
        ((part, _),) = parts(pa.table({"v": array}), "v")
        assert part == Part("v", text)
