from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import PRODUCER_ID, TP, read, story

from semel.sim.transactions.checkers import LastStableOffsetMovesOn


def test_it_stops_before_what_is_open(breaks: Breaks) -> None:
    of = story()
    of.log.of(TP).wrote(PRODUCER_ID, 0, 5)
    LastStableOffsetMovesOn().polled(of, read(of, stable=5))
    with breaks():
        LastStableOffsetMovesOn().polled(of, read(of, stable=6))


def test_until_its_marker_is_durable(breaks: Breaks) -> None:
    of = story()
    of.log.of(TP).wrote(PRODUCER_ID, 0, 5)
    of.log.of(TP).marked(PRODUCER_ID, 6)
    with breaks():
        LastStableOffsetMovesOn().polled(of, read(of, stable=7))
    of.log.of(TP).synced(7)
    LastStableOffsetMovesOn().polled(of, read(of, stable=7))


def test_where_the_log_begins_later_it_may_be_later() -> None:
    of = story()
    of.log.of(TP).wrote(PRODUCER_ID, 0, 5)
    LastStableOffsetMovesOn().polled(of, read(of, from_offset=9, stable=9)._replace(log_start_offset=9))


def test_it_is_readable(breaks: Breaks) -> None:
    of = story()
    with breaks():
        LastStableOffsetMovesOn().polled(of, read(of, stable=6, readable=5))


def test_nobody_reads_behind_it(breaks: Breaks) -> None:
    of = story()
    LastStableOffsetMovesOn().polled(of, read(of, to=6, stable=5, is_committed=False))
    with breaks():
        LastStableOffsetMovesOn().polled(of, read(of, to=6, stable=5))


def test_it_never_goes_back(breaks: Breaks) -> None:
    of, checker = story(), LastStableOffsetMovesOn()
    checker.polled(of, read(of, stable=5))
    checker.polled(of, read(of, stable=4, reader="another"))
    with breaks():
        checker.polled(of, read(of, stable=4))
