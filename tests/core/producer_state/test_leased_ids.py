"""Leased ids of one partition, taken in the order of their issue whatever the order they came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.producer_state import leased_ids
from semel.core.producer_state.leased_ids import LeasedIds
from semel.types import LEASED_IDS_FROM


def taken(ids: LeasedIds) -> list[int]:
    out = []
    while (first := ids.first()) is not None:
        assert ids.pop() == first
        out.append(first)
    return out


@given(
    st.lists(st.integers(0, 40), unique=True),
    st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=120),
)
def test_they_are_taken_by_number_however_they_come(loaded: list[int], steps: list[int | None]) -> None:
    page_ids, leased_ids._PAGE_IDS = leased_ids._PAGE_IDS, 4  # type: ignore[misc]
    try:
        ids = LeasedIds(LEASED_IDS_FROM + one for one in loaded)
        model = sorted(LEASED_IDS_FROM + one for one in loaded)
        for step in steps:
            if step is not None:
                ids.add(LEASED_IDS_FROM + step)
                model = sorted([*model, LEASED_IDS_FROM + step])
            elif model:
                assert ids.pop() == model.pop(0)
            assert list(ids) == model
            assert ids.first() == (model[0] if model else None)
            assert all(0 < len(page) <= 4 for page in ids._pages)
        assert taken(ids) == model
    finally:
        leased_ids._PAGE_IDS = page_ids  # type: ignore[misc]


def test_many_in_any_order_lie_in_short_pages() -> None:
    ids = LeasedIds()
    for n in range(20_000):
        ids.add(LEASED_IDS_FROM + n * 7_919 % 20_000)
    assert max(map(len, ids._pages)) <= leased_ids._PAGE_IDS
    assert taken(ids) == list(range(LEASED_IDS_FROM, LEASED_IDS_FROM + 20_000))
