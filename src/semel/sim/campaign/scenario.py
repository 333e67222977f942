"""A shrunk failure as a file for people and for the simulator: TOML, with what happened as its comments."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from semel.errors import ConfigError
from semel.sim.campaign.shrink import Shrunk
from semel.sim.campaign.simulation import Telling


def encode_scenario(shrunk: Shrunk) -> str:
    """The file's text."""
    return "\n".join(_lines(shrunk)) + "\n"


def _lines(shrunk: Shrunk) -> Iterator[str]:
    telling, result = shrunk.telling, shrunk.result
    yield f"# Seed {result.seed} fails, told with the fewest faults that were found in {shrunk.runs} runs:"
    yield from (f"#   {line}" for line in (result.violation or "").splitlines())
    yield "# Again: semel sim --scenario THIS_FILE"
    yield f"seed = {result.seed}"
    yield f"operations_min = {telling.operations_min}"
    yield f"faults_min = {telling.faults_min}"
    yield f"faults_for_ms_max = {telling.faults_for_ms_max}"
    if telling.kept is not None:
        yield "kept = ["
        for occasion in shrunk.occasions:
            yield f"  {occasion.number},  # {occasion.at_ms:>7} ms  {occasion.fault}"
        yield "]"
    yield "# The end of its trace (ms, who, what):"
    yield from (f"# {line}" for line in result.trace_tail)


def decode_scenario(text: str) -> tuple[int, Telling]:
    """The seed, and which parts of it are told."""
    try:
        fields: dict[str, Any] = tomllib.loads(text)
        seed = fields.pop("seed")
        kept = fields.pop("kept", None)
        return seed, Telling(kept=None if kept is None else frozenset(kept), **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"this is not a scenario: {error}") from error
