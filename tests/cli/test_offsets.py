"""The offset grammar, by example and by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.cli.offsets import (
    END,
    START,
    Absolute,
    AfterStart,
    Ago,
    AtTime,
    BeforeEnd,
    OffsetRange,
    parse_point,
    parse_range,
    place,
    timestamp_needed,
)
from semel.errors import ConfigError

counts = st.integers(0, 2**63 - 1)
points = st.one_of(
    counts.map(Absolute),
    counts.map(AfterStart),
    counts.map(BeforeEnd),
    st.integers(0, 4_102_444_800_000).map(AtTime),
    st.builds(
        lambda count, unit: Ago(count * unit),
        st.integers(1, 99_999),
        st.sampled_from([1, 1000, 60_000, 3_600_000, 86_400_000]),
    ),
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("start", OffsetRange(START)),
        ("end", OffsetRange(END)),
        ("42", OffsetRange(Absolute(42))),
        ("+3", OffsetRange(AfterStart(3))),
        ("-10", OffsetRange(BeforeEnd(10))),
        ("5:8", OffsetRange(Absolute(5), Absolute(8))),
        ("start:end", OffsetRange(START, END)),
        (":end", OffsetRange(START, END)),
        ("-10:", OffsetRange(BeforeEnd(10), END)),
        ("@1700000000", OffsetRange(AtTime(1_700_000_000_000))),
        ("@1700000000123", OffsetRange(AtTime(1_700_000_000_123))),
        ("@2023-11-14", OffsetRange(AtTime(1_699_920_000_000))),
        ("@2023-11-14T22:13", OffsetRange(AtTime(1_699_999_980_000))),
        ("@2023-11-14T22:13:20", OffsetRange(AtTime(1_700_000_000_000))),
        ("@2023-11-14T22:13:20.5Z", OffsetRange(AtTime(1_700_000_000_500))),
        ("@2023-11-14T23:13:20+01:00", OffsetRange(AtTime(1_700_000_000_000))),
        ("@2023-11-14T22:13:20:end", OffsetRange(AtTime(1_700_000_000_000), END)),
        ("@-10m", OffsetRange(Ago(600_000))),
        ("@-1h:@-30m", OffsetRange(Ago(3_600_000), Ago(1_800_000))),
        ("@-250ms", OffsetRange(Ago(250))),
    ],
)
def test_every_form_is_read(text: str, meaning: OffsetRange) -> None:
    assert parse_range(text) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "begin",
        "1:2:3",
        "@",
        "@-10",
        "@-10y",
        "@2023-13-01",
        "--1",
        "1.5",
        "start-",
        "9" * 20,
        "@1969-12-31",
    ],
)
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an offset: write start, end"):
        parse_range(text)


def test_a_point_refuses_a_range() -> None:
    assert parse_point("-3") == BeforeEnd(3)
    with pytest.raises(ConfigError):
        parse_point("1:2")


@given(points, st.none() | points)
def test_what_is_printed_is_read_back(first: object, stop: object) -> None:
    whole = OffsetRange(first, stop)  # type: ignore[arg-type]
    assert parse_range(str(whole)) == whole


@given(st.text(max_size=30))
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        parse_range(text)
    except ConfigError:
        pass


@given(points, st.integers(0, 2**40), st.integers(0, 2**40), st.none() | st.integers(0, 2**41))
def test_a_placed_offset_lies_within_its_partition(
    point: object, start_offset: int, length: int, found: int | None
) -> None:
    end_offset = start_offset + length
    offset = place(point, start_offset=start_offset, end_offset=end_offset, found_offset=found)  # type: ignore[arg-type]
    assert start_offset <= offset <= end_offset


def test_places() -> None:
    def at(text: str, found_offset: int | None = None) -> int:
        return place(parse_point(text), start_offset=100, end_offset=200, found_offset=found_offset)

    assert [at("start"), at("end"), at("150"), at("+5"), at("-5")] == [100, 200, 150, 105, 195]
    assert [at("7"), at("999"), at("-500"), at("+500")] == [100, 200, 100, 200]
    assert [at("@-1h", 120), at("@-1h", None)] == [120, 200]


def test_only_times_need_a_look_up() -> None:
    assert timestamp_needed(Ago(500), now_ms=2_000) == 1_500
    assert timestamp_needed(Ago(5_000), now_ms=2_000) == 0
    assert timestamp_needed(AtTime(7), now_ms=0) == 7
    assert timestamp_needed(END, now_ms=0) is None
