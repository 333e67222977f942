from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.copies.smallest import BEGUN, SECOND, SOURCE, log, rows, view

from semel.core.copy.journal import Chunk, Held, Next
from semel.sim.copies.checkers import CopyRowsArePlanned

IN = rows(1, 2, 3)


def test_rows_that_the_holder_has_said_are_planned() -> None:
    CopyRowsArePlanned().copy_looked(view([log(IN)], log(IN)))


def test_rows_of_nobody_and_rows_behind_the_plan_are_not(breaks: Breaks) -> None:
    with breaks():
        CopyRowsArePlanned().copy_looked(view([log(IN)], log(IN, by=SECOND)))
    with breaks():
        CopyRowsArePlanned().copy_looked(view([log(IN)], log(rows(*range(10)))))
    with breaks():
        CopyRowsArePlanned().copy_looked(view([log(IN)], log(IN), BEGUN[:-1]))


def test_what_is_said_by_who_lost_the_job_is_no_plan(breaks: Breaks) -> None:
    said = Next(SECOND, (Chunk(SOURCE, ((0, 3),), 3, 0, 0, 0),))
    held = (*BEGUN, Held(SECOND, "c0.1", 0), said)
    CopyRowsArePlanned().copy_looked(view([log(IN)], log(IN, by=SECOND), held))
    with breaks():
        CopyRowsArePlanned().copy_looked(view([log(IN)], log(IN, by=SECOND), (*BEGUN, said)))
