from __future__ import annotations

from semel.core.log.config import LogConfig
from semel.core.log.policy import SegmentFacts, count_below, count_expired, room_in

CONFIG = LogConfig(segment_bytes=1000, segment_ms=500, retention_ms=100)
SEGMENTS = [
    SegmentFacts(0, 400, 0, 10),
    SegmentFacts(10, 400, 0, 20),
    SegmentFacts(20, 400, 0, 30),
]


def rolls(active: SegmentFacts, *, incoming_bytes: int = 1, last_offset: int = 50, now_ms: int = 0) -> bool:
    return not room_in(active, CONFIG, now_ms).fits(incoming_bytes, last_offset)


def test_a_segment_is_full_by_size_by_age_and_by_offsets() -> None:
    active = SegmentFacts(0, 900, 0)
    assert not rolls(active, incoming_bytes=100)
    assert rolls(active, incoming_bytes=101)
    assert rolls(active, now_ms=500)
    assert rolls(active, last_offset=2**31)
    assert not rolls(SegmentFacts(0, 0, 0), incoming_bytes=5000, now_ms=500), "an empty one has room for one"


def expired(config: LogConfig, *, high_watermark: int = 30, now_ms: int = 0) -> int:
    return count_expired(SEGMENTS, config=config, high_watermark=high_watermark, now_ms=now_ms)


def test_retention_by_time_takes_the_old_but_never_the_active_segment() -> None:
    assert expired(CONFIG, now_ms=110) == 0
    assert expired(CONFIG, now_ms=111) == 1
    assert expired(CONFIG, now_ms=10_000) == 2


def test_retention_by_size_keeps_at_least_as_much() -> None:
    assert expired(LogConfig(retention_bytes=800)) == 1
    assert expired(LogConfig(retention_bytes=801)) == 0
    assert expired(LogConfig(retention_bytes=0)) == 2


def test_retention_stays_below_the_high_watermark() -> None:
    assert expired(CONFIG, high_watermark=15, now_ms=10_000) == 1


def test_what_lies_wholly_below_the_log_start() -> None:
    assert [count_below(SEGMENTS, start) for start in (0, 9, 10, 19, 20, 99)] == [0, 0, 1, 1, 2, 2]
