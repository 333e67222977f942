"""What a log shows to whom, over any order of appends and syncs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.log.watermarks import FetchIsolation, Synced, Watermarks

BEGUN_AT = 7
STEPS = st.lists(st.tuples(st.sampled_from(["append", "begin to sync", "synced"]), st.integers(1, 1000)))


@given(steps=STEPS, durable=st.booleans())
def test_they_are_in_order_and_none_goes_back(steps: list[tuple[str, int]], durable: bool) -> None:
    marks = Watermarks(Synced(BEGUN_AT, 0), durable=durable)
    end = target = BEGUN_AT
    seen = [(BEGUN_AT,) * 4]
    for step, records in steps:
        match step:
            case "append":
                end += records
                marks.appended(end)
            case "begin to sync":
                target = end
            case _:
                marks.synced_to(target, None)
        assert marks.log_end_offset == end
        assert marks.high_watermark == (marks.synced.offset if durable else end)
        seen.append(
            (marks.synced.offset, marks.last_stable_offset, marks.high_watermark, marks.log_end_offset)
        )
    for synced, last_stable, high_watermark, log_end in seen:
        assert synced <= log_end
        assert last_stable == high_watermark <= log_end, "there are no transactions"
    for of_one in zip(*seen, strict=True):
        assert list(of_one) == sorted(of_one)


@given(steps=STEPS, durable=st.booleans())
def test_whoever_wants_more_certainty_sees_no_more(steps: list[tuple[str, int]], durable: bool) -> None:
    marks = Watermarks(Synced(BEGUN_AT, 0), durable=durable)
    for step, records in steps:
        if step == "append":
            marks.appended(marks.log_end_offset + records)
        else:
            marks.synced_to(marks.log_end_offset, records)
        committed, visible, everything = (
            marks.end_for(isolation)
            for isolation in (
                FetchIsolation.TXN_COMMITTED,
                FetchIsolation.HIGH_WATERMARK,
                FetchIsolation.LOG_END,
            )
        )
        assert committed <= visible <= everything == marks.log_end_offset


@pytest.mark.parametrize("offset", [BEGUN_AT - 1, BEGUN_AT + 2])
def test_a_sync_can_neither_go_back_nor_cover_what_is_not_there(offset: int) -> None:
    marks = Watermarks(Synced(BEGUN_AT, 0), durable=True)
    marks.appended(BEGUN_AT + 1)
    with pytest.raises(AssertionError):
        marks.synced_to(offset, None)
