"""The page of counts is true to the code's faults and verdicts, and to the seeds that it names."""

import re
from collections import Counter
from pathlib import Path

from semel.sim.campaign.swarm import SwarmReport
from semel.sim.campaign.tally import page
from semel.sim.server import verdicts
from semel.sim.world.faults import Fault

PAGE = Path(__file__).parents[3] / "docs" / "simulated.md"
COMMAND = "run: semel sim --seeds 400 --page docs/simulated.md"


def counts(heading: str) -> dict[str, int]:
    """The rows of one table of the page."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return {
        name: int(count.replace(",", ""))
        for name, count in re.findall(r"^\| (.+) \| ([\d,]+) \| [\d,]+ \|$", section, re.M)
    }


def words(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "#", text)


def test_the_page_counts_every_fault_of_the_code() -> None:
    written = counts("Faults")
    assert list(written) == list(Fault), COMMAND
    assert [name for name, count in written.items() if count == 0] == []


def test_the_page_counts_every_verdict_that_is_expected() -> None:
    written = counts("Verdicts")
    assert [name for name in verdicts.EXPECTED if not written.get(name)] == [], COMMAND


def test_the_page_has_the_words_of_the_code() -> None:
    report = SwarmReport(seeds=400, verdicts=Counter(counts("Verdicts")))
    assert words(PAGE.read_text()) == words(page(report)), COMMAND


def test_a_range_that_begins_later_is_named() -> None:
    text = page(SwarmReport(first_seed=1_000, seeds=50))
    assert "`semel sim --seeds 50 --seed 1000 --page docs/simulated.md`" in text
    assert "Seeds 1000 to 1049;" in text
