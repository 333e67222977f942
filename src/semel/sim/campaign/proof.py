"""The proof of the proof: every planted bug, and the seed at which it is found, as a page of the documentation."""

from __future__ import annotations

import gc
import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, islice, repeat
from types import MappingProxyType
from typing import Final

from semel.sim.campaign.swarm import SEEDS_PER_TASK, run_watched
from semel.sim.plants.catalogue import PLANTS
from semel.sim.plants.planting import Plant

SEEDS_MAX: Final = 1_000
_FOUND_AT: Final = re.compile(r"^\| `(\w+)` \| .* \| seed (\d+): `[^|]*` \| [^|]* \|$", re.MULTILINE)
_NO_SEEDS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one plant."""

    plant: str
    seed: int | None  # None: not found
    invariant: str | None

    @property
    def is_as_expected(self) -> bool:
        """Found, and by a checker that should have found it."""
        return self.invariant in PLANTS[self.plant].found_by

    def __str__(self) -> str:
        where = "NOT FOUND" if self.seed is None else f"seed {self.seed}, {self.invariant}"
        return f"{self.plant}: {where}{'' if self.is_as_expected else '  (UNEXPECTED)'}"


def find(name: str, likely_seed: int | None = None, seeds_max: int = SEEDS_MAX) -> Finding:
    """Switch one plant on, and live through seeds until one fails as it should; ``likely_seed`` is tried first.

    Seeds in which the bug cannot show are passed over, and not counted. One that fails another checker is told only
    if no later one fails as it should: what a bug breaks beside its own is not planned.
    """
    plant = PLANTS[name]
    first: Finding | None = None
    with plant.planted():
        seeds = dict.fromkeys(islice(filter(plant.may_show, count()), seeds_max))
        for tried, seed in enumerate(seeds if likely_seed is None else {likely_seed: None} | seeds, 1):
            result = run_watched(seed)
            if tried % SEEDS_PER_TASK == 0:
                gc.collect()
            if result.violation is None:
                continue
            finding = Finding(name, seed, result.invariant)
            if finding.is_as_expected:
                return finding
            first = first or finding
    return first or Finding(name, None, None)


def prove(
    workers: int = 1,
    *,
    seeds_max: int = SEEDS_MAX,
    likely_seeds: Mapping[str, int] = _NO_SEEDS,
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> list[Finding]:
    """All of them, in order."""
    findings = []
    seeds = [likely_seeds.get(name) for name in PLANTS]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for finding in pool.map(find, PLANTS, seeds, repeat(seeds_max)):
            findings.append(finding)
            on_finding(finding)
    return findings


def seeds_of(page: str) -> dict[str, int]:
    """At which seed each bug was found that the page has."""
    return {name: int(seed) for name, seed in _FOUND_AT.findall(page)}


def page(findings: Iterable[Finding]) -> str:
    """The page's text."""
    return "\n".join(_lines(findings)) + "\n"


_RESEMBLES: Final = """\
In the last column `KAFKA`, `SPARK`, `paimon`, `rp` (Redpanda) and `rdk` (librdkafka) are issue numbers, and `CVE`
is Kafka's. *The proposal* is Kafka's own of the "Idempotent Producer", which asked for leases. *Rule*, *step* and
*S* are what the sink's protocol must not leave out (an *S* is a scenario of `tests/core/sink`). What flows must not
leave out has its name in the model of flows (`python -m tools.model -v NAME` tells its shortest counter-example), and
what copies must not, in words of `core/copy`. *Here*: no other system's."""


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    yield "# Planted bugs"
    yield ""
    yield "Written by `semel sim --prove --page docs/proof.md`; a test holds all but the third column to the code."
    yield "[What the seeds met](simulated.md) where no bug was planted is a page of its own."
    yield ""
    yield "Each bug breaks the real server or client in one place, as some system was once broken. The simulator must"
    yield f"find it within {SEEDS_MAX:,} seeds, from seed 0 on; a bug in flows, copies or groups, within as many of the"
    yield "seeds that have such, which is one in twenty each, one in transactions of those that have any, one in"
    yield "twelve, one in compaction of those whose topic is compacted, one in eight, and one in what compaction leaves"
    yield "of the sinks' decision log of those where sinks sweep it, one in four. The third column says at which seed"
    yield "it did when this page was written, and which invariant fell."
    yield ""
    yield _RESEMBLES
    yield ""
    yield "| planted bug | what is broken | found at | resembles |"
    yield "|---|---|---|---|"
    for finding in findings:
        where = "not found" if finding.seed is None else f"seed {finding.seed}: `{_short(finding.invariant)}`"
        yield row_without_finding(PLANTS[finding.plant]).replace("| ? |", f"| {where} |")


def row_without_finding(plant: Plant) -> str:
    """A row of the table, with a question mark for what has to be found out."""
    return f"| `{plant.name}` | {plant.broken} | ? | {plant.resembles} |"


def _short(invariant: str | None) -> str:
    return (invariant or "").removeprefix("raised ")
