from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import GROUP, OTHER, TP, begun, committed, story

from semel.sim.transactions.checkers import InputCountsOnce
from semel.sim.transactions.story import TransactionStory


def ranges(*offsets: tuple[int, int]) -> TransactionStory:
    of = story()
    for epoch, one in enumerate(offsets):
        committed(of, (OTHER, epoch), epoch=epoch, offsets=one)
    return of


def test_each_goes_on_where_the_last_ended() -> None:
    of = ranges((0, 3), (3, 4), (4, 9))
    begun(of, asked=False, told=False, offsets=(9, 12))
    InputCountsOnce().history_ended(of)


@pytest.mark.parametrize("second", [(2, 5), (4, 5)])
def test_nothing_is_read_twice_or_left_out(breaks: Breaks, second: tuple[int, int]) -> None:
    with breaks():
        InputCountsOnce().history_ended(ranges((0, 3), second))


def test_where_the_log_begins_later_it_may_begin() -> None:
    of = ranges((0, 3), (6, 7))
    of.log_starts[TP] = 6
    InputCountsOnce().history_ended(of)


def test_of_one_in_between_nobody_may_know() -> None:
    of = ranges((0, 3))
    begun(of, epoch=1, asked=True, offsets=(3, 5))
    committed(of, (OTHER, 9), epoch=2, offsets=(5, 6))
    InputCountsOnce().history_ended(of)


def test_the_last_one_counts_by_its_offset(breaks: Breaks) -> None:
    of = ranges((0, 3))
    of.final_offsets[GROUP] = begun(of, epoch=1, asked=True, offsets=(1, 5)).name
    with breaks():
        InputCountsOnce().history_ended(of)
