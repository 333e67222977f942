"""How often each fault bit and each verdict was given in a range of seeds, as a page of the documentation.

The page holds nothing but what the seeds decide: the same seeds give the same page on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from semel.sim.campaign.swarm import SEEDS_THAT_MEET_EVERY_FAULT, SwarmReport
from semel.sim.world.faults import Fault


def page(report: SwarmReport) -> str:
    """The page's text, for a report without failures."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: SwarmReport) -> Iterator[str]:
    seeds = f"--seeds {report.seeds}" + (f" --seed {report.first_seed}" if report.first_seed else "")
    yield "# Simulated seeds"
    yield ""
    yield f"Written by `semel sim {seeds} --page docs/simulated.md`; a test holds the names to the code."
    yield ""
    yield f"Seeds {report.first_seed} to {report.first_seed + report.seeds - 1}; no law was broken in any of them."
    yield ""
    yield "| | in all | at least in each seed |"
    yield "|---|--:|--:|"
    yield f"| operations of clients | {report.operations:,} | {report.fewest_operations:,} |"
    yield f"| faults | {report.faults.total():,} | {report.fewest_faults:,} |"
    yield f"| simulated hours | {report.simulated_ms / 3_600_000:,.1f} | |"
    yield ""
    yield f"From {SEEDS_THAT_MEET_EVERY_FAULT} seeds on, a run fails if a fault or an expected verdict never came:"
    yield "what did not happen was not tested."
    yield ""
    yield "## Faults"
    yield "How often each kind changed what somebody saw, and in how many of the seeds."
    yield ""
    yield from _table("fault", report, {fault: report.faults[fault] for fault in Fault})
    yield ""
    yield "## Verdicts"
    yield "How often the server, a client or a sink said so, and in how many of the seeds."
    yield ""
    yield from _table("verdict", report, {name: report.verdicts[name] for name in report.verdict_names})


def _table(kind: str, report: SwarmReport, times: Mapping[str, int]) -> Iterator[str]:
    yield f"| {kind} | times | seeds |"
    yield "|---|--:|--:|"
    yield from (f"| {name} | {count:,} | {report.met_by[name]:,} |" for name, count in times.items())
