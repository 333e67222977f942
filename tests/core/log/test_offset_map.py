"""The map against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semel.core.log.offset_map import KEY_BYTES, OffsetMap
from semel.record.keys import Hashes


def hashes(keys: list[int], *, apart: int = 1) -> Hashes:
    """Few different slots are wanted by many, if they are far ``apart``."""
    high = np.array([key // 3 * apart for key in keys], np.uint64)
    return Hashes(high, np.array([key % 3 for key in keys], np.uint64))


@given(
    blocks=st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=6),
    slots=st.integers(1, 80),
    apart=st.sampled_from([1, 7, 80]),
)
def test_of_each_key_the_newest_offset_is_found(blocks: list[list[int]], slots: int, apart: int) -> None:
    found = OffsetMap(slots * KEY_BYTES, 1 << 20)
    expected: dict[int, int] = {}
    offset = 0
    for block in blocks:
        offsets = np.arange(offset, offset + len(block)) * 2
        taken = found.put(hashes(block, apart=apart), offsets)
        expected |= dict(zip(block[:taken], offsets[:taken].tolist(), strict=True))
        offset += len(block)
        if taken < len(block):
            assert found.is_full
            break
    assert len(found) == len(expected)
    asked = [*range(63)]
    assert found.newest(hashes(asked, apart=apart)).tolist() == [expected.get(key, -1) for key in asked]


def test_it_takes_no_more_than_it_may_and_one_at_least() -> None:
    keys = [*range(0, 3000, 3)]
    small = OffsetMap(100 * KEY_BYTES, 1 << 20)
    assert 85 <= small.put(hashes(keys), np.arange(len(keys))) <= 90
    assert OffsetMap(1, 1 << 20).put(hashes(keys), np.arange(len(keys))) == 1


def test_it_is_no_larger_than_it_need_be() -> None:
    found = OffsetMap(1 << 40, 10)
    assert found.put(hashes([*range(10)]), np.arange(10)) == 10
