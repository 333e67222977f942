"""``recorded_order_never_changes``: an entry of a merge log that counts goes on to count, with the same ranges, and
none comes to stand before it; and what a task is given of a range is what stands recorded there, all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.recorded import RecordedEntry
    from semel.sim.flows.view import FlowView, StageView


class RecordedOrderNeverChanges(Checker):
    """Which entries count is worked out by the checkers' own reading of the log."""

    name: ClassVar[str] = "recorded_order_never_changes"

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, list[RecordedEntry]] = {}

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                if stage.stage.is_stateful:
                    for source in stage.story.sources:
                        self._judge(stage, source)
                    self._judge_tasks(stage)
                stage.story.planned.clear()

    def _judge(self, stage: StageView, source: TopicPartition) -> None:
        now, before = stage.entries(source.partition), self._seen.get(source, [])
        for place, entry in enumerate(before):
            if place >= len(now) or now[place] != entry:
                found = now[place] if place < len(now) else "none"
                raise self.violated(f"entry {place} of {source} was {entry}, and is {found}")
        self._seen[source] = now

    def _judge_tasks(self, stage: StageView) -> None:
        for task in stage.story.planned:
            source_range, given = task.source_range, task.entries or ()
            recorded = {
                entry.offset: [(each.tp.topic, each.from_offset, each.end_offset) for each in entry.ranges]
                for entry in stage.entries(source_range.source.partition)
                if source_range.batch_from <= entry.offset < source_range.batch_end
            }
            found = {
                placed.offset: [
                    (each.topic, each.from_offset, each.end_offset) for each in placed.entry.ranges
                ]
                for placed in given
            }
            if found != recorded:
                raise self.violated(
                    f"a task of {source_range.source} from {source_range.batch_from} to {source_range.batch_end} was "
                    f"given {found}, and recorded is {recorded}"
                )
