"""Which sections a run measures, and which it takes from the run before."""

from __future__ import annotations

import pytest
from bench.__main__ import SECTIONS, begin
from bench.plan import FULL, QUICK
from bench.results import Measurement, Results, Section

HERE = {"processor": "Abacus"}


@pytest.fixture
def kept() -> Results:
    """A full run that was ended after its first section."""
    measured = Measurement(Section("", "", ()), "full", HERE, "", 0.0, 0.0)
    return Results(HERE, FULL.command, False, {"ceiling": measured})


def test_the_first_run_measures_everything() -> None:
    found, names = begin(FULL, HERE, None)
    assert (found, names) == (Results(HERE, "make bench"), list(SECTIONS))


def test_a_run_that_was_ended_early_goes_on(kept: Results) -> None:
    found, names = begin(FULL, HERE, kept)
    assert found is kept
    assert names == [name for name in SECTIONS if name != "ceiling"]


def test_a_whole_run_is_replaced(kept: Results) -> None:
    kept.complete = True
    found, names = begin(FULL, HERE, kept)
    assert not found.measurements
    assert names == list(SECTIONS)


def test_another_plan_does_not_go_on_with_this_one(kept: Results) -> None:
    found, names = begin(QUICK, HERE, kept)
    assert not found.measurements
    assert names == list(SECTIONS)


def test_another_machine_does_not_go_on_either(kept: Results) -> None:
    found, _ = begin(FULL, {"processor": "Slide rule"}, kept)
    assert not found.measurements


def test_a_commit_in_between_does_not_begin_it_anew(kept: Results) -> None:
    found, names = begin(FULL, {**HERE, "semel": "0.1, commit 2"}, kept)
    assert found is kept
    assert "ceiling" not in names


def test_only_measures_that_section_and_keeps_the_others(kept: Results) -> None:
    found, names = begin(QUICK, {"processor": "Slide rule"}, kept, only=["fetch", "ceiling"])
    assert found is kept
    assert names == ["ceiling", "fetch"]
