from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.log.index import (
    OffsetEntry,
    TimeEntry,
    floor_of_offset,
    floor_of_position,
    floor_of_time,
    offsets_rise,
    times_rise,
)

rising = st.sets(st.integers(0, 1000), max_size=30).map(sorted)


@given(rising, st.integers(-1, 1001))
def test_the_position_to_look_from_is_the_last_at_or_below(offsets: list[int], target: int) -> None:
    entries = [OffsetEntry(offset, 10 * offset) for offset in offsets]
    below = max((entry for entry in entries if entry.relative_offset <= target), default=None)
    assert floor_of_offset(entries.__getitem__, len(entries), target) == below
    assert floor_of_position(entries.__getitem__, len(entries), 10 * target) == below


@given(rising, st.integers(-1, 1001))
def test_everything_before_the_offset_for_a_time_is_older(times: list[int], target: int) -> None:
    entries = [TimeEntry(timestamp_ms, n) for n, timestamp_ms in enumerate(times)]
    older = max((entry for entry in entries if entry.timestamp_ms < target), default=None)
    assert floor_of_time(entries.__getitem__, len(entries), target) == older


def test_an_index_that_cannot_be_true() -> None:
    good = [OffsetEntry(3, 0), OffsetEntry(9, 400)]
    assert offsets_rise([], 0)
    assert offsets_rise(good, 500)
    assert not offsets_rise(good, 400), "leads behind the end of the log"
    assert not offsets_rise([*good, OffsetEntry(0, 0)], 500), "zeroed"
    assert not offsets_rise([OffsetEntry(1, -5)], 500)
    assert times_rise([TimeEntry(1, 0), TimeEntry(2, 0)])
    assert not times_rise([TimeEntry(1, 0), TimeEntry(1, 5)])
