from __future__ import annotations

from semel.server.arriving import Arriving
from semel.server.budget import Budget
from semel.server.frame_pool import STEP_BYTES, FramePool


def arriving(limit_bytes: int = 1 << 20) -> tuple[Arriving, FramePool, Budget]:
    pool, budget = FramePool(1 << 20), Budget(limit_bytes, lambda: None)
    return Arriving(pool, budget), pool, budget


def test_a_frame_holds_its_room_until_it_is_given_back() -> None:
    one, pool, budget = arriving()
    assert one.start(memoryview(b"abc"), STEP_BYTES)
    assert (budget.held_bytes, one.filled_bytes, one.is_whole) == (STEP_BYTES, 3, False)
    one.filled_bytes = STEP_BYTES
    assert one.is_whole
    assert one.frame is not None and bytes(one.frame[:3]) == b"abc"
    frame, one.frame = one.frame, None
    one.let_go()
    assert budget.held_bytes == STEP_BYTES, "it is being read"
    one.give_back(frame)
    assert (budget.held_bytes, pool.idle_bytes) == (0, STEP_BYTES)


def test_one_that_nobody_wants_any_more_gives_its_room_back() -> None:
    one, pool, budget = arriving()
    assert one.start(memoryview(b""), STEP_BYTES)
    one.let_go()
    one.let_go()
    assert (budget.held_bytes, pool.idle_bytes, one.frame) == (0, STEP_BYTES, None)


def test_without_room_it_does_not_begin() -> None:
    one, _, budget = arriving(limit_bytes=100)
    assert budget.take(60)
    assert not one.start(memoryview(b"abc"), 60)
    assert (one.frame, budget.held_bytes) == (None, 60)


def test_it_lags_behind_an_even_pace() -> None:
    one, _, _ = arriving()
    assert not one.lags(100.0, 30.0)
    one.start(memoryview(b""), 3_000)
    one.started_at_s = 0.0
    assert not one.lags(1.0, 30.0), "the first second is no offence"
    assert one.lags(2.0, 30.0)
    one.filled_bytes = 1_500
    assert not one.lags(16.0, 30.0)
    assert one.lags(16.1, 30.0)
