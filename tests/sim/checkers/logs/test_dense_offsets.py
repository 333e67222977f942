from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, batch, header, history, marker
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import DenseOffsets
from semel.sim.world.history import LoggedBatch

SOUND = [batch(4, "a:0", "a:1"), marker(6), batch(7, "a:2")]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([batch(4, "a:0"), batch(6, "a:1")], id="a hole"),
        pytest.param([batch(4, "a:0", "a:1"), batch(5, "a:2")], id="an offset twice"),
        pytest.param([LoggedBatch(header(4, 2), (b"a:0",))], id="fewer records than offsets"),
    ],
)
def test_every_offset_once(breaks: Breaks, log: list[LoggedBatch]) -> None:
    DenseOffsets().logs(history(), {TP: SOUND})
    DenseOffsets().read(TP, SOUND, 8)
    with breaks():
        DenseOffsets().logs(history(), {TP: log})
    with breaks():
        DenseOffsets().read(TP, log, 8)


def test_nothing_is_read_beyond_the_high_watermark(breaks: Breaks) -> None:
    with breaks():
        DenseOffsets().read(TP, SOUND, 7)
