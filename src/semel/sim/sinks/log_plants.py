"""Bugs planted in how the sinks' decision log is kept small: what still counts goes, or what went is missed."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial
from typing import Any

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Carried, Cut, Decision, JournalRecord, encode
from semel.core.sink.litter import Litter
from semel.core.sink.run import Ticket
from semel.sim.plants.planting import FINISHES, Patches, plant
from semel.sim.sinks.log_compaction import seed_sweeps
from semel.sim.sinks.plants import DECIDED, ROWS_ONCE, STOPS, ZOMBIES
from semel.spark import runs, sink_log, takeover
from semel.spark.sink_log import SinkLog

SAME = "sink_log_says_the_same"

sink_log_plant = partial(plant, may_show=seed_sweeps)


# -- keys ---------------------------------------------------------------------------------------------------


@sink_log_plant(
    "a driver's records are keyed by their kind: a zombie's replaces the holder's", "here", SAME, ROWS_ONCE
)
def sink_log_is_keyed_by_kind(patch: Patches) -> None:
    def encodes(record: JournalRecord) -> tuple[bytes, bytes]:
        key, value = encode(record)
        return json.dumps(json.loads(key)[:2]).encode(), value

    patch.set(sink_log, "encode", encodes)


# -- what is settled ----------------------------------------------------------------------------------------


@sink_log_plant("the newest decision is settled as soon as it is in", "here", SAME, ROWS_ONCE, DECIDED)
def sink_log_loses_the_last_decision(patch: Patches) -> None:
    def sees(
        litter: Litter, key: bytes, record: JournalRecord, *, counts: bool, undecided: Collection[Cut]
    ) -> None:
        original(litter, key, record, counts=counts, undecided=undecided)
        if isinstance(record, Decision) and counts:
            litter._settle(key)

    original = patch.set(Litter, "see", sees)


@sink_log_plant("a run's claims are settled with its first decision", "S2", SAME, ROWS_ONCE, ZOMBIES)
def sink_log_loses_claims(patch: Patches) -> None:
    def sees(
        litter: Litter, key: bytes, record: JournalRecord, *, counts: bool, undecided: Collection[Cut]
    ) -> None:
        original(litter, key, record, counts=counts, undecided=undecided)
        if isinstance(record, Decision) and counts:
            for standing in [each for each in litter._standing if each.startswith(b'["writer"')]:
                litter._settle(standing)

    original = patch.set(Litter, "see", sees)


# -- what a BEGIN carries -----------------------------------------------------------------------------------


def _goes_on_without(patch: Patches, name: str) -> None:
    def goes_on(history: SinkHistory, carried: Carried) -> None:
        before = getattr(history, name)
        original(history, carried)
        setattr(history, name, before)

    original = patch.set(SinkHistory, "_go_on_from", goes_on)


@sink_log_plant("a BEGIN does not say whose the undecided rows are", "step 5", SAME, ROWS_ONCE)
def sink_begin_forgets_writers(patch: Patches) -> None:
    _goes_on_without(patch, "writers")


@sink_log_plant("a BEGIN does not say what was decided", "step 5", SAME, ROWS_ONCE, DECIDED)
def sink_begin_forgets_the_decision(patch: Patches) -> None:
    _goes_on_without(patch, "decision")


# -- who sweeps ---------------------------------------------------------------------------------------------


@sink_log_plant(
    "tombstones have no sequences of their own, and a decision has theirs", "here", STOPS, FINISHES
)
def sink_log_sweeps_without_sequences(patch: Patches) -> None:
    def sweeps(log: SinkLog, ticket: Ticket, history: SinkHistory, settled_min: int) -> Ticket:
        original(log, ticket, history, settled_min)
        return ticket

    original: Any = sink_log.sweep
    patch.set(takeover, "sweep", sweeps)
    patch.set(runs, "sweep", sweeps)
