"""Which small files become one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.manifest import DataFile
from semel.core.land.merging import merges


@given(
    st.lists(st.builds(DataFile, st.uuids().map(str), st.just(1), st.integers(1, 200), st.sampled_from("ab")))
)
def test_merges_take_small_neighbours_of_one_value_and_each_once(files: list[DataFile]) -> None:
    groups = merges(files, 100)
    taken = [file for group in groups for file in group]
    assert len(taken) == len(set(taken))
    for group in groups:
        assert len(group) > 1 and len({file.value for file in group}) == 1
        assert sum(file.size_bytes for file in group) <= 100
        assert all(file.size_bytes < 50 for file in group)
        assert group == [file for file in files if file in group]
