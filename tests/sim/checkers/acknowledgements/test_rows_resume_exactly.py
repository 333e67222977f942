from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.sim.checkers.smallest import TP, batch, history
from tests.sim.conftest import Breaks

from semel.sim.checkers.acknowledgements import RowsResumeExactly
from semel.sim.world.history import OTHER_INPUT
from semel.types import TopicPartition


@dataclass(frozen=True)
class Rows:
    """A source whose rows 0, 2, 4 and 6 belong to the partition."""

    saved_position: int = -1
    name: str = "s"
    is_done: bool = False

    def rows_of(self, tp: TopicPartition) -> list[int]:
        return [0, 2, 4, 6]


def judge(stored: list[int], saved_position: int, log_start: int) -> None:
    told = history(log_start=log_start)
    told.sources.append(Rows(saved_position))
    log = [batch(log_start + at, f"s/0:{row}") for at, row in enumerate(stored)]
    RowsResumeExactly().logs(told, {TP: [*log, batch(log_start + len(log), "else/0:9")]})


@pytest.mark.parametrize(
    ("stored", "saved_position", "log_start"),
    [
        ([], -1, 0),
        ([0, 2], -1, 0),
        ([0, 2, 4], 3, 0),
        ([0, 2, 4, 6], 7, 0),
        ([4, 6], 6, 2),  # trimmed in front
        ([], 6, 4),  # trimmed as a whole
    ],
)
def test_the_first_rows_and_all_that_the_file_vouches_for(stored, saved_position, log_start) -> None:
    judge(stored, saved_position, log_start)


@pytest.mark.parametrize(
    ("stored", "saved_position", "log_start"),
    [
        pytest.param([2, 4], -1, 0, id="without the first"),
        pytest.param([0, 4], -1, 0, id="a hole"),
        pytest.param([0, 2, 2], -1, 0, id="a row twice"),
        pytest.param([2, 0], -1, 0, id="out of order"),
        pytest.param([0, 3], -1, 0, id="another partition's"),
        pytest.param([3], -1, 0, id="another partition's, first"),
        pytest.param([0, 2], 4, 0, id="a saved row is missing"),
        pytest.param([], 0, 0, id="all that was saved is missing"),
        pytest.param([4, 4], -1, 2, id="a row twice behind a trim"),
    ],
)
def test_a_row_twice_or_missing(breaks: Breaks, stored, saved_position, log_start) -> None:
    with breaks():
        judge(stored, saved_position, log_start)


def test_a_row_of_another_input(breaks: Breaks) -> None:
    told = history()
    told.sources.append(Rows())
    with breaks():
        RowsResumeExactly().logs(told, {TP: [batch(0, f"s{OTHER_INPUT}/0:0")]})
