"""What the flows of the benchmark are given, and what they are."""

from __future__ import annotations

import pytest
from bench.flow_queries import COLUMNS, KEPT_OF_TEN, Asked, flow_of, is_kept, rows_of

from semel.core.flow.codec import decode_rows
from semel.core.flow.schema import parse_schema


def test_rows_have_the_columns_and_so_many_users() -> None:
    decoded = decode_rows(parse_schema(COLUMNS), rows_of(1_000, 5_000, 40).column("value"))
    assert not decoded.bad
    assert [row.n for row in decoded.rows] == list(range(1_000, 6_000))
    assert len({row.user for row in decoded.rows}) == 40
    assert sum(map(is_kept, decoded.rows)) == 5_000 * KEPT_OF_TEN // 10


@pytest.mark.parametrize(
    ("work", "stages", "state"),
    [
        ("spark steps", 1, 0),
        ("python steps", 1, 0),
        ("count", 2, 1),
        ("fold", 2, 1),
        ("merged", 1, 0),
        ("side by side", 2, 0),
    ],
)
def test_the_flows_have_the_stages_that_the_page_tells_of(work: str, stages: int, state: int) -> None:
    plan = flow_of(Asked(work, "name", ["one", "other"], ["made", "made-too"], "")).plan()
    assert len(plan.stages) == stages
    assert sum(stage.has_state for stage in plan.stages) == state
    assert plan.flow == "name"
