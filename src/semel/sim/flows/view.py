"""What lies in the topics of one flow, decoded once for all checkers.

Which entries of a merge log count is worked out here anew, by the rules alone, and not by what the product does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from semel.core.flow.changelog import ChangelogRows
from semel.core.flow.state import MemoryBase
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import SINKS_TOPIC, Decision, decode
from semel.core.sink.ranges import writers_of
from semel.core.sink.refusal import Refusal
from semel.sim.flows.recorded import RecordedEntry, RecordedRange, StoredRecord
from semel.sim.flows.replay import Replayed, replay
from semel.sim.flows.story import FlowStory, StageStory
from semel.sim.world.history import LoggedBatch
from semel.types import TopicPartition

_decode = lru_cache(4_096)(decode)
_unpack = lru_cache(16_384)(msgspec.msgpack.decode)
STEP_BYTES: Final = 2  # in front of each key of the state
_json = lru_cache(16_384)(json.loads)


class StageView:
    """One stage."""

    def __init__(self, flow: FlowView, story: StageStory) -> None:
        self.flow = flow
        self.story = story
        self.stage = story.stage
        self._replayed: dict[TopicPartition, Replayed] = {}

    @cached_property
    def _history(self) -> tuple[SinkHistory, list[Decision]]:
        history, decisions = SinkHistory(self.story.sink_id), []
        for record in self.flow.records(TopicPartition(SINKS_TOPIC, 0)):
            read = _decode(record.value)
            if read.sink_id == self.story.sink_id and history.apply(read) and isinstance(read, Decision):
                decisions.append(read)
        return history, decisions

    @property
    def decisions(self) -> list[Decision]:
        """Those that count."""
        return self._history[1]

    def decided_end(self, source: TopicPartition) -> int:
        """By the newest decision."""
        return self.decisions[-1].source_ends.get(source, 0) if self.decisions else 0

    def replayed(self, source: TopicPartition) -> Replayed:
        """What its recorded inputs give."""
        if source not in self._replayed:
            self._replayed[source] = replay(self, source)
        return self._replayed[source]

    def inputs(self, partition: int) -> list[TopicPartition]:
        """The partitions of its inputs that meet in one of its own."""
        return [TopicPartition(read.topic, partition) for read in self.stage.inputs]

    def end_to_decide(self, source: TopicPartition) -> int:
        """Where ``source`` is decided when all of it is."""
        if not self.stage.is_stateful:
            return self.flow.end(source)
        entries = self.entries(source.partition)
        return entries[-1].offset + 1 if entries else 0

    # -- state ------------------------------------------------------------------------------------------

    def newest_state(self, source: TopicPartition) -> dict[bytes, Any] | str | None:
        """As the newest decision has it; ``None``: it has none."""
        decision = self.decisions[-1]
        for writer, state in decision.states.items():
            if writer.startswith(writers_of(source)):
                return self.decided_state(source, decision, state)
        return None

    def decided_state(
        self, source: TopicPartition, decision: Decision, state: CommittedState
    ) -> dict[bytes, Any] | str:
        """By key; or why there is none."""
        if state.inline is not None:
            return self.read_state(dict(MemoryBase.decoded(state.inline).scan(b"", None)))
        changelog = TopicPartition(self.stage.changelog_topic, source.partition)
        start = self.flow.log_start(changelog)
        if start is None or (
            start > state.changelog_from and self.flow.end(changelog) > state.changelog_from
        ):
            messages_gone = [
                record
                for record in self.written(source, changelog)
                if state.changelog_from <= record.record_offset < (sys.maxsize if start is None else start)
            ]
            if messages_gone:
                return f"a changelog that begins at {start} instead of {state.changelog_from}"
        messages = [
            record
            for record in self.written(source, changelog)
            if state.changelog_from <= record.record_offset < decision.output_ends.get(changelog, 0)
        ]
        rows = ChangelogRows(
            pa.array([record.key for record in messages], pa.binary()),
            pa.array([record.value for record in messages], pa.binary()),
        )
        restored = MemoryBase.restored([rows], decision.source_ends[source], state)
        return (
            restored.evidence
            if isinstance(restored, Refusal)
            else self.read_state(dict(restored.scan(b"", None)))
        )

    def read_state(self, rows: Mapping[bytes, bytes]) -> dict[bytes, Any]:
        """By key, without the number of the step; where that is not told in plain words, as it lies there."""
        if not self.flow.story.doing.is_plain:
            return dict(rows)
        return {key[STEP_BYTES:]: _unpack(value) for key, value in rows.items()}

    def written(self, source: TopicPartition, output: TopicPartition) -> list[StoredRecord]:
        """What the writers of ``source`` have in ``output``, decided or not."""
        ids = {
            producer_id
            for writer, of_writer in self._history[0].writers.items()
            if writer.startswith(writers_of(source))
            for producer_id in of_writer.values()
        }
        return [record for record in self.flow.records(output) if record.producer_id in ids]

    @cached_property
    def _entries(self) -> dict[int, list[RecordedEntry]]:
        return {
            source.partition: _counting(self.flow.records(source), source.partition)
            for source in self.story.sources
        }

    def entries(self, partition: int) -> list[RecordedEntry]:
        """Those of the merge log that count, in order."""
        return self._entries[partition]


class FlowView:
    """One flow's topics; ``trimmed`` is what lay below the logs' starts."""

    def __init__(
        self,
        story: FlowStory,
        logs: Mapping[TopicPartition, Sequence[LoggedBatch]],
        trimmed: Mapping[TopicPartition, Mapping[int, LoggedBatch]],
    ) -> None:
        self.story = story
        self._logs = logs
        self._trimmed = trimmed
        self._records: dict[TopicPartition, list[StoredRecord]] = {}
        self.stages = [StageView(self, stage) for stage in story.stages]

    @property
    def is_whole(self) -> bool:
        """Whether every log could be read."""
        topics = [
            TopicPartition(name, n)
            for name, count in self.story.partition_counts.items()
            for n in range(count)
        ]
        return all(tp in self._logs for tp in (TopicPartition(SINKS_TOPIC, 0), *topics))

    def log_start(self, tp: TopicPartition) -> int | None:
        """Of what is still there; ``None``: nothing is."""
        return min((batch.header.base_offset for batch in self._logs[tp]), default=None)

    def end(self, tp: TopicPartition) -> int:
        """The offset behind the last batch."""
        return max((batch.header.last_offset + 1 for batch in self._logs[tp]), default=0)

    def records(self, tp: TopicPartition) -> list[StoredRecord]:
        """All that ever were in a log, in order."""
        if tp not in self._records:
            start = min((batch.header.base_offset for batch in self._logs[tp]), default=sys.maxsize)
            gone = sorted(item for item in self._trimmed.get(tp, {}).items() if item[0] < start)
            self._records[tp] = [
                StoredRecord(batch.header.base_offset + place, key, value, batch.header.producer_id)
                for batch in (*(batch for _, batch in gone), *self._logs[tp])
                for place, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
            ]
        return self._records[tp]


def _counting(records: Sequence[StoredRecord], partition: int) -> list[RecordedEntry]:
    """A HEAD counts above all before it, an ENTRY of the newest HEAD where it goes on where each input ended."""
    epoch = -1
    ends: dict[tuple[str, str], int] = {}
    found: list[RecordedEntry] = []
    for record in records:
        body: dict[str, Any] = _json(record.value)
        if body["kind"] == "head":
            if body["epoch"] > epoch:
                epoch = body["epoch"]
                for topic, topic_id, offset in body["starts"]:
                    ends.setdefault((topic, topic_id), offset)
            continue
        ranges = body["ranges"]
        goes_on = all(ends.get((topic, topic_id)) == first < end for topic, topic_id, first, end in ranges)
        goes_on &= bool(ranges) == (body["tick_ms"] is None)
        if body["epoch"] != epoch or body["number"] != len(found) or not goes_on:
            continue
        ends |= {(topic, topic_id): end for topic, topic_id, _, end in ranges}
        of_inputs = tuple(
            RecordedRange(TopicPartition(topic, partition), first, end) for topic, _, first, end in ranges
        )
        found.append(RecordedEntry(record.record_offset, of_inputs, body["tick_ms"]))
    return found
