from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import OTHER, TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import HighWatermarkRises


@pytest.mark.parametrize(("high_watermark", "log_end_offset"), [(4, 9), (10, 9)])
def test_it_falls_or_passes_the_end(breaks: Breaks, high_watermark: int, log_end_offset: int) -> None:
    checker = HighWatermarkRises()
    for mark in (0, 5, 5, 9):
        checker.watermark(TP, mark, 9)
    checker.watermark(OTHER, 4, 9)
    with breaks():
        checker.watermark(TP, high_watermark, log_end_offset)
