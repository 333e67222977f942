"""Texts that no folder can have the name of."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.fitting import check_topics, fitting
from semel.core.land.partitioning import FOLDER_BYTES_MAX, Part
from semel.errors import ConfigError

LONG, LONGEST = "x" * (FOLDER_BYTES_MAX - 1), "x" * (FOLDER_BYTES_MAX - 2)  # behind "v="
SAYS = "column 'v' cannot part rows: the name of its folder would have 256 bytes, and a name has 255 at most"


def table(texts: list[str | None]) -> pa.Table:
    return pa.table({"v": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)), pa.int64())})


@given(st.lists(st.sampled_from(["bad", "a", None, "", LONG, LONGEST])))
def test_a_row_whose_text_names_no_folder_is_a_bad_one_in_its_place(rows: list[str | None]) -> None:
    bad = [(index, "why") for index, row in enumerate(rows) if row == "bad"]
    good = [row for row in rows if row != "bad"]
    left, found = fitting(table(good), bad, "v")
    assert left.column("v").to_pylist() == [row for row in good if row != LONG]
    assert left.column("n").to_pylist() == [index for index, row in enumerate(good) if row != LONG]
    assert list(found) == [
        (index, "why" if row == "bad" else SAYS) for index, row in enumerate(rows) if row in ("bad", LONG)
    ]


def test_the_name_of_nulls_folder_is_no_text() -> None:
    texts: list[str | None] = ["__HIVE_DEFAULT_PARTITION__", None, "__hive_default_partition__"]
    left, [(index, why)] = fitting(table(texts), (), "v")
    assert left.column("v").to_pylist() == texts[1:] and index == 0
    assert why.endswith("is the name that the folder of null has, and would be read as null")
    with pytest.raises(ConfigError, match="the name that the folder of null has"):
        check_topics(["__HIVE_DEFAULT_PARTITION__"], "_topic")


def test_a_text_is_as_long_as_its_escape() -> None:
    texts: list[str | None] = ["é" * 42, "é" * 43]  # six bytes for each
    left, found = fitting(table(texts), (), "v")
    assert left.column("v").to_pylist() == texts[:1]
    assert [index for index, _ in found] == [1] and "260 bytes" in found[0][1]


@pytest.mark.parametrize("column", [None, "n", "_topic"])
def test_where_no_text_of_the_value_names_folders_all_fit(column: str | None) -> None:
    values = table([LONG])
    assert fitting(values, [(1, LONG * 2)], column) == (values, [(1, LONG * 2)])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_an_error_that_names_folders_is_cut_to_fit(why: str) -> None:
    values = table([LONG])
    left, [(index, cut)] = fitting(values, [(1, why)], "_error")
    assert left is values and index == 1
    assert len(Part("_error", cut).folder) <= FOLDER_BYTES_MAX
    assert cut == why or (cut.endswith("...") and why.startswith(cut.removesuffix("...")))
    assert cut == why or len(Part("_error", cut).folder) > FOLDER_BYTES_MAX - len("%F0%9F%98%80")


def test_a_topic_whose_name_names_no_folder_is_refused() -> None:
    check_topics(["t" * 248], "_topic")
    check_topics(["t" * 249], None)
    with pytest.raises(
        ConfigError, match=r"of topic 't{249}': .* 256 bytes, .* 255 at most\. Nothing was landed"
    ):
        check_topics(["t", "t" * 249], "_topic")
