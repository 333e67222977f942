"""What a run leaves for the next one."""

from __future__ import annotations

from pathlib import Path

from bench.results import Measurement, Results, Row, Section

from bench import results

SECTION = Section(
    "Speed",
    "How fast.",
    (Row("run", "m/s", {"hare": [1.5], "tortoise": [2.5]}, less_is_better=True),),
    rival="hare",
    ours=("tortoise",),
    beside=("snail",),
    notes=("the hare slept",),
)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    measured = Measurement(SECTION, "quick", {"processor": "Abacus"}, "today", 1.5, 0.5)
    kept = Results({"processor": "Abacus"}, "make bench", True, {"speed": measured})
    kept.save(tmp_path / "results.json")
    assert results.load(tmp_path / "results.json") == kept


def test_nothing_saved_is_nothing_loaded(tmp_path: Path) -> None:
    assert results.load(tmp_path / "results.json") is None


def test_saving_leaves_no_part_behind(tmp_path: Path) -> None:
    Results({}, "").save(tmp_path / "results.json")
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
