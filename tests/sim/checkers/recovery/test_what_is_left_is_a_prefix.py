from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, batch, marker
from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import WhatIsLeftIsAPrefix
from semel.sim.world.history import LoggedBatch

WAS = [batch(0, "a:0"), marker(1, epoch=1), batch(2, "a:1")]


@pytest.mark.parametrize("left", range(4))
def test_the_beginning_is_left(left: int) -> None:
    WhatIsLeftIsAPrefix().left_by_power_cut(TP, WAS, WAS[:left])


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(WAS[1:], id="without the beginning"),
        pytest.param([WAS[0], WAS[2]], id="a hole"),
        pytest.param([batch(0, "a:9")], id="another value"),
        pytest.param([WAS[0], marker(1, epoch=2)], id="another marker"),
        pytest.param([*WAS, batch(3, "a:2")], id="more than there was"),
    ],
)
def test_something_else_is_left(breaks: Breaks, found: list[LoggedBatch]) -> None:
    with breaks():
        WhatIsLeftIsAPrefix().left_by_power_cut(TP, WAS, found)
