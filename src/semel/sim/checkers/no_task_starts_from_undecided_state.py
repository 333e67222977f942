"""``no_task_starts_from_undecided_state``: the state that an attempt of a task begins with is that of an end which was
decided, exactly: what a replay of the entries below it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.view import FlowView, StageView


class NoTaskStartsFromUndecidedState(Checker):
    """Whatever lies on its machine, and whoever else works there."""

    name: ClassVar[str] = "no_task_starts_from_undecided_state"

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                self._judge(stage)

    def _judge(self, stage: StageView) -> None:
        loaded = list(stage.story.loaded)
        stage.story.loaded.clear()
        for each in loaded:
            source = TopicPartition(stage.stage.merge_topic, each.partition)
            ends = {0} | {decision.source_ends.get(source, 0) for decision in stage.decisions}
            if each.decided_end not in ends:
                raise self.violated(
                    f"{each.by} began behind {source}@{each.decided_end}, which was never decided: {sorted(ends)}"
                )
            found = stage.read_state(each.rows)
            wanted = stage.replayed(source).states.get(each.decided_end)
            if found != wanted:
                raise self.violated(
                    f"{each.by} began behind {source}@{each.decided_end} with {found}; a replay gives {wanted}"
                )
