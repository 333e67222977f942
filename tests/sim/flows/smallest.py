"""The smallest flow: one source, a stage that keys its rows by user, and one that folds them; all of one partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
from tests.sim.checkers.smallest import header

from semel.core.flow.merge_records import Entry, EntryRange, Head, InputTopic, MergeInput, PlacedEntry, encode
from semel.core.flow.state import MemoryBase, State
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.journal import SINKS_TOPIC, Decision, JournalRecord, WriterClaim, WriterState
from semel.core.sink.journal import encode as encode_journal
from semel.core.sink.ranges import SourceRange
from semel.flow.stage_ranges import StageTask
from semel.flow.stage_state import StateBounds
from semel.sim.campaign.simulation import Simulation
from semel.sim.flows.driver import StageDriver
from semel.sim.flows.steps import Doing, End
from semel.sim.flows.story import FlowStory, StageStory
from semel.sim.flows.view import FlowView
from semel.sim.sinks.mix import NOTHING_HAPPENS
from semel.sim.world.faults import FaultMix
from semel.sim.world.history import LoggedBatch
from semel.spark.planning import ReadRange
from semel.types import TopicPartition

KEYER, FOLDER = 7, 8  # the producer ids of the stages' writers
KEYED = InputTopic("f0.f0-a-by-user", "i")
IN = TopicPartition("f0.a", 0)
MERGE = TopicPartition("f0.f0-a-by-user-fold.merge", 0)

AT = "2026-01-01T00:00:00Z"

# What the fold tells of a user's rows, and what is left of them.
TOLD = [{"user": "u", "id": 12, "count": 1, "mixed": 12}, {"user": "u", "id": 16, "count": 2, "mixed": 388}]
LEFT = [{"count": 1, "mixed": 12}, {"count": 2, "mixed": 388}]


def story(*, breaks: bool = False) -> FlowStory:
    doing = Doing(("f0.a",), partition_count=1, end=End.FOLDED)
    bounds = StateBounds(1_000, 1_000)
    return FlowStory("f0", doing, 1, breaks, 3, 10, bounds, (8,), (1,), (20,), elapsed_ms=lambda: 0)


def driver(of: StageStory, *, had_rival: bool = False) -> StageDriver:
    """One that has not started."""
    world = Simulation(0, mix=FaultMix(), sinks=(), flows=[of.flow])
    made = StageDriver(
        of, f"{of.sink_id}.d0", Random(0), world.around, lambda: NOTHING_HAPPENS, lambda *_: None
    )
    made.had_rival = had_rival
    return made


# -- records --------------------------------------------------------------------------------------------


def head(epoch: int = 1) -> tuple[bytes, bytes]:
    """Of a planner that takes the merge log over."""
    return encode(Head(epoch, "d", (MergeInput(*KEYED, 1),), {KEYED: 0}))


def entry(number: int, from_offset: int, end_offset: int, epoch: int = 1) -> tuple[bytes, bytes]:
    return encode(_entry(number, from_offset, end_offset, epoch))


def _entry(number: int, from_offset: int, end_offset: int, epoch: int = 1) -> Entry:
    return Entry(epoch, number, (EntryRange(*KEYED, from_offset, end_offset),), {KEYED: end_offset})


def told(*rows: Mapping[str, Any], key: bytes = b"u") -> list[tuple[bytes, bytes]]:
    """As they lie in a topic."""
    return [(key, json.dumps(row).encode()) for row in rows]


def inline(state: Mapping[str, Any] | None) -> CommittedState:
    """The state of the fold in a decision."""
    made = State(MemoryBase(), None, inline_bytes_max=1_000)
    if state is not None:
        made.put(b"\0\0u", msgspec.msgpack.encode(state))
        list(made.end_entry(1))
    return made.committed()


def task(from_offset: int, end_offset: int, *placed: tuple[int, int, int, int]) -> StageTask:
    """Of the fold, with entries at (offset, number, from, end)."""
    source_range = SourceRange(MERGE, from_offset, end_offset)
    entries = tuple(PlacedEntry(offset, _entry(*fields)) for offset, *fields in placed)
    return StageTask(ReadRange(source_range, from_offset, end_offset), entries)


# -- logs -----------------------------------------------------------------------------------------------


def view(
    of: FlowStory | None = None,
    *,
    rows: Sequence[int] = (3, 4),  # by id; each is one row, under id * 4
    entries: Sequence[tuple[bytes, bytes]] = (head(), entry(0, 0, 1), entry(1, 1, 2)),
    output: Sequence[Mapping[str, Any]] = TOLD,
    decided: int | None = 3,
    state: Mapping[str, Any] | None = LEFT[1],
) -> FlowView:
    """All logs of the flow; its fold is decided up to ``decided`` of the merge log, with ``state``."""
    of = of or story()
    keying, folding = of.stages
    sent = [(None, json.dumps({"user": "u", "id": row, "at": AT}).encode()) for row in rows]
    keyed = told(*({"user": "u", "id": 4 * row, "at": AT} for row in rows))
    journal: list[JournalRecord] = [
        WriterClaim(keying.sink_id, f"{IN.topic}/0/i/0of1", KEYER, 0),
        WriterClaim(folding.sink_id, f"{MERGE.topic}/0/i/0of1", FOLDER, 0),
        _decision(keying, IN, len(rows)),
    ]
    if decided is not None:
        journal.append(_decision(folding, MERGE, decided, {f"{MERGE.topic}/0/i/0of1": inline(state)}))
    found = {
        IN.topic: _log(sent, -1),
        KEYED.topic: _log(keyed, KEYER),
        MERGE.topic: _log(entries, -1),
        of.output: _log(told(*output), FOLDER),
    }
    logs = {
        TopicPartition(topic, number): found.get(topic, []) if number == 0 else []
        for topic, count in of.partition_counts.items()
        for number in range(count)
    }
    logs[TopicPartition(SINKS_TOPIC, 0)] = _log([encode_journal(record) for record in journal], 1)
    return FlowView(of, logs, {})


def _decision(
    stage: StageStory, source: TopicPartition, end: int, states: Mapping[str, CommittedState] | None = None
) -> Decision:
    output = TopicPartition(stage.stage.output.topic, 0)
    writers = {"w": WriterState(KEYER, 0, {})}
    return Decision(
        stage.sink_id, 0, "q", 0, {source: end}, end, 0, writers, {output: 99}, states=states or {}
    )


def _log(records: Sequence[tuple[bytes | None, bytes]], producer_id: int) -> list[LoggedBatch]:
    if not records:
        return []
    values, keys = tuple(value for _, value in records), tuple(key for key, _ in records)
    return [LoggedBatch(header(0, len(records), by=producer_id), values, keys)]
