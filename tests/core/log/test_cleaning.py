"""Which part of a log is cleaned, what goes together, and what becomes of a batch by who wrote it."""

from __future__ import annotations

import pytest

from semel.core.log.cleaning import Dirty, fate_of, fate_of_marker, find_dirty, in_groups, keeps_tombstones
from semel.core.log.config import LogConfig
from semel.core.log.policy import POSITION_MAX, SegmentFacts
from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.record.batch import BatchHeader, Record, assemble_batch, decode_header, encode_batch

NOW_MS = 1_000
COMPACT = LogConfig(cleanup_policy="compact")
# Of 100 bytes each; the last one grows.
SEGMENTS = [SegmentFacts(base, 100, 0, base) for base in (0, 10, 20, 30, 40)]


def dirty(
    config: LogConfig = COMPACT,
    *,
    cleaned_to: int | None = None,
    start: int = 0,
    readable_to: int = 50,
    first_times_ms: tuple[int, ...] = (),
) -> Dirty | None:
    return find_dirty(
        SEGMENTS,
        config,
        cleaned_to=cleaned_to,
        log_start_offset=start,
        readable_to=readable_to,
        first_times_ms=first_times_ms,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (0, 40, 0, 400)),
        ({"cleaned_to": 20}, (20, 40, 200, 200)),
        ({"cleaned_to": 25}, (25, 40, 200, 200)),
        ({"cleaned_to": 40}, None),
        ({"cleaned_to": 41}, (0, 40, 0, 400)),  # of a log that was longer: it is not believed
        ({"cleaned_to": 5, "start": 12}, (12, 40, 100, 300)),
        ({"readable_to": 39}, (0, 30, 0, 300)),
        ({"readable_to": 40}, (0, 40, 0, 400)),
        ({"readable_to": 9}, None),
    ],
)
def test_what_is_dirty(asked: dict[str, int], expected: tuple[int, ...] | None) -> None:
    found = dirty(**asked)
    assert (None if found is None else found[:4]) == expected


def test_nothing_is_cleaned_before_the_smallest_lag() -> None:
    def end(lag_ms: int, cleaned_to: int = 0) -> int | None:
        found = dirty(LogConfig(min_compaction_lag_ms=lag_ms), cleaned_to=cleaned_to)
        return None if found is None else found.end_offset

    assert [end(970), end(971), end(981), end(1001)] == [40, 30, 20, None]
    assert end(1001, cleaned_to=40) is None
    assert end(981, cleaned_to=10) == 20


def test_when_it_is_due() -> None:
    half = dirty(cleaned_to=20)
    assert half is not None
    assert half.ratio == 0.5
    assert not half.is_due(LogConfig(min_cleanable_dirty_ratio=0.5)), "more than that"
    assert half.is_due(LogConfig(min_cleanable_dirty_ratio=0.49))
    for lag_ms, is_due in ((100, True), (200, False)):
        config = LogConfig(max_compaction_lag_ms=lag_ms, min_cleanable_dirty_ratio=1.0)
        found = dirty(config, cleaned_to=20, first_times_ms=(1, 1, 850, 900))
        assert found is not None
        assert found.is_due(config) is is_due
    assert dirty(LogConfig(max_compaction_lag_ms=1), cleaned_to=20, first_times_ms=(1, 1, 0, 1000)) == half


def test_small_segments_go_together() -> None:
    def sizes(segment_bytes: int, *facts: SegmentFacts, end: int = 50) -> list[list[int]]:
        return list(in_groups([(one.base_offset, one) for one in facts], end, segment_bytes))

    assert sizes(1000, *SEGMENTS) == [[0, 10, 20, 30, 40]]
    assert sizes(250, *SEGMENTS) == [[0, 10], [20, 30], [40]]
    assert sizes(50, *SEGMENTS) == [[0], [10], [20], [30], [40]]
    far = SegmentFacts(POSITION_MAX, 100, 0)
    assert sizes(1000, SEGMENTS[0], far, end=POSITION_MAX + 1) == [[0], [POSITION_MAX]]


def header(base_offset: int, producer_id: int = 7, epoch: int = 1) -> BatchHeader:
    rows = [Record(0, 0, b"k", b"v")]
    batch = encode_batch(
        rows, base_offset=base_offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
    )
    return decode_header(batch)


def entry(*offsets: int) -> ProducerEntry:
    return ProducerEntry(1, 3, 0, tuple(BatchSpan(n, n, offset, offset) for n, offset in enumerate(offsets)))


def test_what_becomes_of_a_batch_by_who_wrote_it() -> None:
    full, few = entry(4, 5, 6, 7, 8), entry(7, 8)

    def fate(known: ProducerEntry | None, base_offset: int, **of: int) -> str:
        found = fate_of(header(base_offset, **of), known)
        assert found.has_a_say
        return "remembered" if found.is_remembered else "nobody's" if found.is_nobodys else "ordinary"

    assert fate(None, 3) == "nobody's"
    assert fate(None, 3, producer_id=-1, epoch=-1) == "ordinary"
    assert [fate(full, n) for n in (3, 4, 8)] == ["ordinary", "remembered", "remembered"]
    assert [fate(few, n) for n in (3, 7)] == ["nobody's", "remembered"]
    assert fate(few, 3, epoch=0) == "ordinary", "the epoch was raised since"
    assert fate(entry(), 3) == "nobody's"


def test_what_becomes_of_a_marker() -> None:
    assert fate_of_marker(header(3), 3, entry(4), None).is_remembered
    assert fate_of_marker(header(3), 3, entry(4), 3).is_remembered
    assert fate_of_marker(header(5), 3, entry(4), 3).is_remembered, "one that was not read yet"
    assert not fate_of_marker(header(3), 3, entry(4), 4).has_a_say
    assert not fate_of_marker(header(3), 2, entry(4), None).has_a_say
    assert not fate_of_marker(header(3), 3, None, None).has_a_say


def test_how_long_tombstones_stay() -> None:
    def stays(now_ms: int, *, delete_horizon: bool) -> bool:
        batch = assemble_batch(
            b"", record_count=0, last_offset_delta=0, base_timestamp=100, delete_horizon=delete_horizon
        )
        return keeps_tombstones(decode_header(batch), now_ms)

    assert stays(99, delete_horizon=True)
    assert not stays(100, delete_horizon=True)
    assert stays(100, delete_horizon=False)
