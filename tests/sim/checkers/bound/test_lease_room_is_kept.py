from __future__ import annotations

from tests.sim.checkers.smallest import LEASE, TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.bound import LeaseRoomIsKept


def test_only_who_has_no_room_left_of_its_lease_is_refused(breaks: Breaks) -> None:
    LeaseRoomIsKept().append_refused_for_room(TP, LEASE, kept=0, free=0)
    with breaks():
        LeaseRoomIsKept().append_refused_for_room(TP, LEASE, kept=1, free=0)
