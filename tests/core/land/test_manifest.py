"""Manifests: their text, what a commit makes of one, and which files it no longer needs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.manifest import (
    REPLACED_KEPT_MS,
    DataFile,
    Manifest,
    from_text,
    is_newest,
    manifest_name,
    numbers_of,
    to_text,
)
from semel.errors import ConfigError, StorageError

SCHEMA = pa.schema([("n", pa.int64()), ("m", pa.list_(pa.struct([("é", pa.timestamp("us", "UTC"))])))])
FILES = st.builds(DataFile, st.text(min_size=1), st.integers(0), st.integers(0), st.none() | st.text())


@given(files=st.lists(FILES), marks=st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1)))
def test_its_text_is_read_as_it_was(files: list[DataFile], marks: dict[str, int]) -> None:
    manifest = Manifest(7, SCHEMA, "n", tuple(files), marks, {"j": "me"}, {"j": "a/1"}, {"f": 5})
    assert from_text(to_text(manifest), "x") == manifest


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', to_text(Manifest(1, SCHEMA))[:-3]])
def test_a_damaged_one_is_told(text: str) -> None:
    with pytest.raises(StorageError, match="x is no manifest"):
        from_text(text, "x")


def test_one_of_a_later_semel_is_not_guessed_at() -> None:
    with pytest.raises(ConfigError, match="format 2, and this semel knows 1"):
        from_text('{"format": 2}', "x")


def test_a_commit_adds_removes_and_marks_together() -> None:
    first = Manifest(0, SCHEMA).next(add=[DataFile("a", 1, 1), DataFile("b", 2, 2)], marks={"x": 1}, now_ms=0)
    second = first.next(add=[DataFile("ab", 3, 3)], remove=["a", "b"], marks={"y": 2}, now_ms=10)
    assert (second.number, second.rows, second.marks) == (2, 3, {"x": 1, "y": 2})
    assert second.replaced == {"a": 10, "b": 10}
    later = 10 + REPLACED_KEPT_MS
    assert second.over(later - 1) == [] and sorted(second.over(later)) == ["a", "b"]
    assert second.next(now_ms=later).replaced == {}


def test_numbers_are_those_of_manifests() -> None:
    names = [manifest_name(12), manifest_name(3), ".x.tmp", "manifest-1.json"]
    assert numbers_of(names) == [3, 12]
    assert is_newest(12, names) and not is_newest(3, names)
