"""Where the rows of a range end that all come through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.sink.ranges import SourceRange
from semel.flow.settling import good_end
from semel.flow.stage_ranges import StageTask
from semel.spark.planning import ReadRange
from semel.types import TopicPartition


class Rows:
    """Some of them fail; each query over a part is counted."""

    def __init__(self, failing: set[int]) -> None:
        self.failing, self.tries = failing, 0

    def tried(self, task: StageTask) -> BaseException | None:
        self.tries += 1
        met = sorted(self.failing & set(range(task.planned.read_from, task.planned.read_end)))
        return ValueError(met[0]) if met else None


def task_of(first: int, end: int) -> StageTask:
    return StageTask(ReadRange(SourceRange(TopicPartition("in", 0), first, end), first, end))


@given(st.integers(0, 50), st.integers(1, 5000), st.sets(st.integers(0, 5050), max_size=4))
def test_it_is_the_first_row_that_fails_and_little_is_tried(
    first: int, count: int, failing: set[int]
) -> None:
    rows, end = Rows(failing), first + count
    found, why = good_end(task_of(first, end), rows.tried)
    expected = min((row for row in failing if first <= row < end), default=end)
    assert found == expected
    assert (why is None) == (expected == end)
    assert why is None or why.args == (expected,)
    assert rows.tries <= 2 + count.bit_length()


def test_rows_that_fail_only_together_end_where_they_were_seen_to() -> None:
    def tried(task: StageTask) -> BaseException | None:
        planned = task.planned
        return ValueError("together") if planned.read_end - planned.read_from > 1 else None

    found, why = good_end(task_of(10, 18), tried)
    assert 10 <= found < 18
    assert str(why) == "together"
