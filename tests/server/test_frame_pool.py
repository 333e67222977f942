from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.server.frame_pool import STEP_BYTES, FramePool


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6 * STEP_BYTES)), max_size=40))
def test_no_buffer_is_lent_twice_and_idle_ones_are_bounded(steps: list[tuple[bool, int]]) -> None:
    pool = FramePool(4 * STEP_BYTES)
    lent: list[memoryview] = []
    for takes, number in steps:
        if takes or not lent:
            frame = pool.take(number)
            assert len(frame) == number
            assert all(frame.obj is not other.obj for other in lent)
            lent.append(frame)
        else:
            pool.give_back(lent.pop(number % len(lent)))
        assert 0 <= pool.idle_bytes <= 4 * STEP_BYTES


def test_a_buffer_serves_the_next_frame_of_about_its_size() -> None:
    pool = FramePool(4 * STEP_BYTES)
    frame = pool.take(STEP_BYTES + 1)
    pool.give_back(frame)
    assert pool.take(2 * STEP_BYTES).obj is frame.obj
    assert pool.take(2 * STEP_BYTES).obj is not frame.obj
    assert pool.idle_bytes == 0
