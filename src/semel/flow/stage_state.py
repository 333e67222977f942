"""The state that a task begins with: that of the decided end, which its ticket names, and never another."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from semel.core.flow.state import SNAPSHOT_CHANGES_MIN, State, inline_bytes_max, trim_offsets
from semel.core.sink.committed_state import CommittedState, state_of
from semel.core.sink.ranges import SourceRange, writers_of
from semel.core.sink.run import Ticket
from semel.errors import DataLoss, SemelError
from semel.flow.changelog import read_changelog
from semel.flow.plan import Stage
from semel.flow.store import Store
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog
from semel.types import TopicPartition

_LOG: Final = logging.getLogger("semel.flow")


def trim_changelog(stage: Stage, connection: Connection, ticket: Ticket) -> None:
    """Delete what lies in front of the newest decided snapshots: nothing reads it any more.

    ``ticket`` has what was decided and counts. A changelog that cannot be made shorter costs room and nothing else.
    """
    states, ends = {}, {}
    for number in range(stage.partition_count):
        prefix, changelog = writers_of(TopicPartition(stage.merge_topic, number)), changelog_of(stage, number)
        for writer, state in ticket.states.items():
            if writer.startswith(prefix):
                states[number], ends[number] = state, ticket.scan_from(writer, changelog)
    trimmed = {changelog_of(stage, number): offset for number, offset in trim_offsets(states, ends).items()}
    known = this_process().trimmed
    new = {tp: offset for tp, offset in trimmed.items() if offset and known.get((connection, tp)) != offset}
    if not new:
        return
    known.update({(connection, tp): offset for tp, offset in new.items()})
    try:
        connect(connection).delete_records(new)
    except SemelError as failed:
        _LOG.warning("the changelog of %s was not made shorter: %s", stage.sink_id, failed)


def changelog_of(stage: Stage, number: int) -> TopicPartition:
    """The partition of the changelog that belongs to a partition of the stage."""
    return TopicPartition(stage.changelog_topic, number)


@dataclass(frozen=True, slots=True)
class StateBounds:
    """What a replay has to find the same, for they decide which messages the changelog has."""

    inline_bytes_max: int
    snapshot_changes_min: int


class TaskState:
    """Of one attempt; a large one lies below ``folder`` on this machine, and is closed with the attempt."""

    def __init__(
        self, stage: Stage, connection: Connection, ticket: Ticket, source_range: SourceRange, folder: Path
    ) -> None:
        self._stage, self._connection, self._ticket, self._range = stage, connection, ticket, source_range
        source = source_range.source
        self._changelog = changelog_of(stage, source.partition)
        self._store = Store.open(folder, stage.sink_id, str(source_range.topic_id), source.partition)
        self._state: State | None = None

    def bounds(self) -> StateBounds:
        """When the state goes to its changelog, and when a snapshot is due there; a simulator's are smaller."""
        return StateBounds(inline_bytes_max(self._stage.partition_count), SNAPSHOT_CHANGES_MIN)

    def load(self) -> State:
        """The decided state; called only once the sink has said that the range begins at the decided end."""
        committed = state_of(self._ticket.states, self._range)
        changelog_end = self._ticket.scan_from(self._range.writer, self._changelog)
        base = self._store.as_of(self._range.batch_from, committed, changelog_end, self._read_changelog)
        bounds = self.bounds()
        self._state = State(
            base,
            committed,
            inline_bytes_max=bounds.inline_bytes_max,
            changelog_end=changelog_end,
            snapshot_changes_min=bounds.snapshot_changes_min,
        )
        return self._state

    def committed(self, decided_end: int) -> CommittedState:
        """As of the attempt's last entry, in front of ``decided_end``."""
        assert self._state is not None
        self._store.keep(self._state, decided_end)
        return self._state.committed()

    def _read_changelog(self, first: int, end: int) -> Iterator[tuple[Any, Any]]:
        ids = self._ticket.writers.get(self._range.writer, {}).values()
        output = self._ticket.outputs.get(self._changelog.topic)
        try:
            yield from read_changelog(
                connect(self._connection),
                self._changelog,
                frozenset(ids),
                first,
                end,
                topic_id=None if output is None else output.topic_id,
            )
        except DataLoss:
            self._stop_if_overtaken()  # by one that decided a newer snapshot, and deleted what this one needs
            raise

    def _stop_if_overtaken(self) -> None:
        since = self._ticket.history()
        SinkLog(self._connection, self._stage.sink_id).read(since)
        fenced = since.fenced_by_other(self._ticket.sink_epoch)
        if fenced is not None:
            allow(fenced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()
