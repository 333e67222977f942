"""Contenders in pairs of bursts: who comes when, and what is said of the differences."""

from __future__ import annotations

import pytest
from bench.sections.bursts import in_pairs, note


class Scripted:
    """A side whose bursts cost what is given, one after the other."""

    def __init__(self, name: str, came: list[str], costs_us: list[float]) -> None:
        self.name, self.came, self.costs_us = name, came, iter(costs_us)

    def cost_us(self, burst: int) -> float:
        self.came.append(f"{self.name}{burst}")
        return next(self.costs_us)


def test_whatever_drifts_meanwhile_drifts_for_both() -> None:
    came: list[str] = []
    drifting = {"A": Scripted("A", came, [10, 13, 15, 16]), "B": Scripted("B", came, [12, 13, 15, 18])}
    costs_us = in_pairs(drifting, pairs=2, burst=7)  # type: ignore[arg-type]
    assert came == ["A7", "B7", "B7", "A7", "B7", "A7", "A7", "B7"]
    assert costs_us == {"A": [11.5, 15.5], "B": [12.5, 16.5]}


def test_a_note_says_how_sure_the_difference_is() -> None:
    text = note("work", [20.0] * 9, [*[21.0] * 8, 40.0], both=("bare", "clad"))
    assert text.startswith(
        "work: a request costs 20.0 µs of processor time bare, and 1.00 µs more clad (1.00 to "
    )
    assert ": 5.0 % (5.0 to " in text
    assert text.endswith("by 9 pairs")


def test_a_side_that_was_left_out_is_no_pair() -> None:
    with pytest.raises(ValueError, match="zip"):
        note("work", [1.0], [], both=("bare", "clad"))
