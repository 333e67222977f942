from __future__ import annotations

from msgspec.structs import replace
from tests.sim.conftest import Breaks
from tests.sim.copies.smallest import BEGUN, PLACE, SECOND, log, rows, view

from semel.core.copy.journal import Begun, Held
from semel.sim.copies.checkers import CopyZombiesShutOut

IN = rows(1, 2, 3)


def test_what_is_in_flight_when_another_holds_the_job_may_come() -> None:
    CopyZombiesShutOut().copy_looked(view([log(IN)], log(IN), (*BEGUN, Held(SECOND, "c0.1", 0))))


def test_nothing_comes_behind_where_the_other_one_begins(breaks: Breaks) -> None:
    for output_end in (3, 2):
        begun = Begun(SECOND, "c0.1", (replace(PLACE, output_end=output_end),))
        made = view([log(IN)], log(IN), (*BEGUN, Held(SECOND, "c0.1", 0), begun))
        if output_end == 3:
            CopyZombiesShutOut().copy_looked(made)
            continue
        with breaks():
            CopyZombiesShutOut().copy_looked(made)


def test_the_newer_ones_own_rows_stand_there() -> None:
    begun = Begun(SECOND, "c0.1", (PLACE,))
    made = view([log(IN)], log(IN, by=SECOND), (*BEGUN, Held(SECOND, "c0.1", 0), begun))
    CopyZombiesShutOut().copy_looked(made)
