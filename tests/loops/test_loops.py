"""A few rounds of each crash loop; ``python -m tests.loops.run`` plays more."""

from __future__ import annotations

import pytest
from tests.loops.rounds import RoundResult, breaches
from tests.loops.run import play

ROUNDS = 5


@pytest.mark.loops
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["server", "producer", pytest.param("driver", marks=pytest.mark.spark)])
def test_every_row_is_stored_once_and_in_order(kind: str) -> None:
    results: list[RoundResult] = []
    play(kind, range(ROUNDS), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * ROUNDS
    assert sum(result.kills for result in results) > 0


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({0: [(0, 1), (1, 1)]}, "stored twice"),
        ({0: [(0, 2), (1, 1)]}, "row 1 stands after row 2"),
        ({0: [(0, 1), (1, 3)]}, "where 3 is"),
        ({0: [(0, 1)]}, "where nothing is"),
    ],
)
def test_the_audit_sees_each_breach(stored: dict[int, list[tuple[int, int]]], says: str) -> None:
    found = breaches(stored, acknowledged={0: {0: stored[0][0][1], 1: 2}})
    assert any(says in breach for breach in found), found


def test_the_audit_names_what_is_missing() -> None:
    assert "first missing [2]" in breaches({0: [(0, 1)]}, expected={0: [1, 2]})[0]
    assert breaches({0: [(0, 1), (1, 2)]}, expected={0: [1, 2]}) == ()
