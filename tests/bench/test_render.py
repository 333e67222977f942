"""The page, from figures that are written down here."""

from __future__ import annotations

import pytest
from bench.figures import Spread
from bench.render import figure, page, spread, table
from bench.results import Measurement, Results, Row, Section

MACHINE = {"processor": "Abacus, 2 cores", "semel": "0.1.0, commit 1234567"}
SECTION = Section(
    "Speed",
    "How fast.",
    (
        Row(
            "run",
            "m/s",
            {"hare": [10.0, 20.0, 10.0], "tortoise": [20.0, 20.0, 40.0], "snail": [1.0, 1.0, 1.0]},
        ),
        Row("rest", "s", {"hare": [8.0], "tortoise": [2.0]}, less_is_better=True),
    ),
    rival="hare",
    ours=("tortoise",),
    beside=("snail",),
    notes=("the hare slept",),
)


def measured(section: Section = SECTION, machine: dict[str, str] = MACHINE) -> Measurement:
    return Measurement(section, "quick", machine, "2026-11-21 12:00 UTC", 90.0, 0.25)


def test_the_rival_stands_first_and_ours_beside_its_ratio() -> None:
    assert table(SECTION) == [
        "| work | hare | tortoise | ratio | snail |",
        "|---|---|---|---|---|",
        "| run | 10.0 (10.0–20.0) m/s | 20.0 (20.0–40.0) m/s | **2.00 (1.00–4.00)** | 1.00 m/s |",
        "| rest | 8.00 s | 2.00 s | **4.00** | – |",
    ]


def test_a_section_without_a_rival_has_no_ratio() -> None:
    alone = Section("Ceiling", "", (Row("run", "m/s", {"wind": [99.0]}),), beside=("wind",))
    assert table(alone) == ["| work | wind |", "|---|---|", "| run | 99.0 m/s |"]


def test_a_ratio_needs_figures_of_both() -> None:
    section = Section("", "", (Row("run", "m/s", {"tortoise": [2.0]}),), "hare", ("tortoise",))
    assert table(section)[-1] == "| run | – | 2.00 m/s | – |"


def test_nothing_is_no_multiple_of_something() -> None:
    idle = Row("idle", "%", {"hare": [1.0], "tortoise": [0.0]}, less_is_better=True)
    section = Section("", "", (idle,), "hare", ("tortoise",))
    assert table(section)[-1] == "| idle | 1.00 % | 0.00 % | – |"


def test_the_page_says_on_what_how_long_and_what_is_missing() -> None:
    text = page(Results(MACHINE, "make bench", False, {"speed": measured()}), ("speed", "fetch"), "15 s")
    assert "    make bench\n" in text
    assert "- processor: Abacus, 2 cores\n" in text
    assert "- took: 1.5 minutes; not measured: fetch\n" in text
    assert "done the same work for\n15 s" in text
    assert "- the hare slept\n" in text
    assert text.endswith(
        "`--only speed`; quick plan; 2026-11-21 12:00 UTC; 90 s; load average before it 0.2.\n"
    )


def test_sections_stand_in_the_order_asked_for() -> None:
    other = measured(Section("Rest", "", ()))
    text = page(Results(MACHINE, "", True, {"speed": measured(), "rest": other}), ("rest", "speed"), "")
    assert text.index("## Rest") < text.index("## Speed")


def test_a_section_measured_on_something_else_says_so() -> None:
    other = measured(machine=MACHINE | {"semel": "0.1.0, commit 7654321"})
    text = page(Results(MACHINE, "", True, {"speed": other}), ("speed",), "")
    assert text.endswith("load average before it 0.2; semel 0.1.0, commit 7654321.\n")
    assert "processor Abacus" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.12"), (9.876, "9.88"), (12.34, "12.3"), (99.94, "99.9"), (1234.5, "1,234")],
)
def test_three_digits_count(value: float, text: str) -> None:
    assert figure(value) == text


def test_one_round_has_no_spread() -> None:
    assert spread(Spread.of([7.0])) == "7.00"
