from __future__ import annotations

import pytest

from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.sorted_rows import SortedRows
from semel.core.producer_state.state import ProducerState


@pytest.mark.parametrize("count", [0, 1, 3, 2000])
def test_each_is_found_by_its_id_and_no_other(count: int) -> None:
    entries = {n * 2: ProducerEntry(n % 9, n, n, (BatchSpan(0, 0, n, n),)) for n in range(count)}
    rows = SortedRows(ProducerState(entries).freeze().in_order())
    for producer_id in range(-1, 2 * count + 2):
        assert rows.get(producer_id) == entries.get(producer_id)
        assert (producer_id in rows) == (producer_id in entries)
