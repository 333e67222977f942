"""The ticks of a stage whose flow asks for them: its planner's clock, and whether the stages above are through.

The moment up to which a partition has rested is proven, stage after stage from the sources down: at that moment the
sources' ends were read; the first stage has decided up to there, so its rows are in its output; the ends of that were
read after it; and so on down to the inputs of the stage itself, which the merge log reads before it records a tick.
Nobody is fenced, and nothing is written for it. It is looked at only where a partition has rested for long enough by
the clock alone, and a few times an idle time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.core.flow.resting import Resting
from semel.core.sink.history import SinkHistory
from semel.flow.merge_log import MergeLog, Recorded
from semel.flow.plan import Above, Stage
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.sink_log import SinkLog
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_LOOKS: Final = 10  # for each idle time, while something is under way
_PAUSE_MS_MAX: Final = 1_000


class Ticks:
    """Of the planner of one stage."""

    def __init__(self, stage: Stage, connection: Connection) -> None:
        self._resting = Resting(stage.idle_ms, stage.rests_ms)
        self._through = Through(stage, connection)
        self._recorded: Mapping[int, Recorded] = {}

    def due(self) -> dict[int, int]:
        """To be recorded where the merge log finds nothing to read."""
        now_ms = this_process().clock.elapsed_ms()
        if not self._resting.may_be_due(now_ms):
            return {}
        while (quiet_ms := self._through.since(now_ms)) is not None:
            ticks = self._resting.due(quiet_ms)
            if ticks or quiet_ms == now_ms:
                return ticks
        return {}

    def see(self, recorded: Mapping[int, Recorded], asked: Mapping[int, int]) -> None:
        """What stands in the merge log now, after these ticks were asked for."""
        now_ms = this_process().clock.elapsed_ms()
        for number, now in recorded.items():
            before = self._recorded.get(number)
            if (
                number in asked
                and before is not None
                and now.ends == before.ends
                and now.count > before.count
            ):
                self._resting.ticked(number, asked[number])
            self._resting.see(number, now.ends, now_ms, is_new=now.count == 0)
        self._recorded = recorded


class Through:
    """Since when nothing is under way in the stages above one."""

    def __init__(self, stage: Stage, connection: Connection) -> None:
        self._connection, self._above = connection, stage.above
        self._pause_ms = min(_PAUSE_MS_MAX, stage.idle_ms // _LOOKS)
        self._histories: dict[str, SinkHistory] = {}
        self._asked_ms: int | None = None  # when the ends of the sources were read that are looked for
        self._looked_ms = 0
        self._level = 0
        self._wanted: dict[TopicPartition, int] = {}

    def since(self, now_ms: int) -> int | None:
        """A moment whose rows are all in this stage's inputs, or ``None`` while some are under way."""
        if self._asked_ms is not None and now_ms - self._looked_ms < self._pause_ms:
            return None
        self._looked_ms = now_ms
        if self._asked_ms is None:
            self._asked_ms, self._level = now_ms, 0
            self._want()
        while self._level < len(self._above):
            if not self._is_decided(self._above[self._level]):
                return None
            self._level += 1
            self._want()
        proven_ms, self._asked_ms = self._asked_ms, None
        return proven_ms

    def _want(self) -> None:
        if self._level < len(self._above):
            cluster = connect(self._connection)
            partitions = [
                TopicPartition(topic, number)
                for topic in self._above[self._level].topics
                for number in cluster.topic(topic).partitions
            ]
            listed = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
            self._wanted = {tp: each.offset for tp, each in listed.items()}

    def _is_decided(self, above: Above) -> bool:
        ends = self._decided(above)
        behind = [tp for tp, end in self._wanted.items() if ends.get(tp, 0) < end]
        if any(tp in ends for tp in behind):
            return False
        if not behind:
            return True
        starts = connect(self._connection).list_offsets(dict.fromkeys(behind, EARLIEST_TIMESTAMP))
        return all(starts[tp].offset >= self._wanted[tp] for tp in behind)  # nothing is in them

    def _decided(self, above: Above) -> dict[TopicPartition, int]:
        """How far the stage has come, in offsets of the topics that it reads."""
        log = SinkLog(self._connection, above.sink_id)
        history = self._histories.get(above.sink_id)
        if history is None or history.fence is None:
            history = self._histories[above.sink_id] = log.history()
        else:
            log.read(history)
        if history.decision is None:
            return {}
        ends = history.decision.source_ends
        if above.merge_topic is None:
            return dict(ends)
        decided = {tp.partition: end for tp, end in ends.items() if tp.topic == above.merge_topic}
        topic_id = history.decision.source_ids.get(above.merge_topic)
        return MergeLog(self._connection, above.merge_topic, topic_id=topic_id).input_ends(decided)
