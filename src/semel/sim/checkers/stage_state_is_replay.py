"""``stage_state_is_replay``: the state that a DECISION has, or that the changelog gives for it, is what a replay of the
entries below the decided end leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.core.sink.ranges import writers_of
from semel.sim.checkers.base import Checker

if TYPE_CHECKING:
    from semel.core.sink.journal import Decision
    from semel.sim.flows.view import FlowView, StageView


class StageStateIsReplay(Checker):
    """Of each decision where the state rides in it; of the newest one where it is in the changelog."""

    name: ClassVar[str] = "stage_state_is_replay"

    def __init__(self) -> None:
        self._judged: dict[str, int] = {}  # by sink: how many decisions

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                if stage.stage.has_state:
                    for decision in stage.decisions[self._judged.get(stage.story.sink_id, 0) :]:
                        self._judge(stage, decision, is_newest=decision is stage.decisions[-1])
                    self._judged[stage.story.sink_id] = len(stage.decisions)

    def _judge(self, stage: StageView, decision: Decision, *, is_newest: bool) -> None:
        for source, end in decision.source_ends.items():
            wanted = stage.replayed(source).states.get(end)
            if wanted is None:
                raise self.violated(f"{source} is decided to {end}, where no entry ends")
            states = [
                state for writer, state in decision.states.items() if writer.startswith(writers_of(source))
            ]
            if len(states) != 1:
                if end:
                    raise self.violated(f"{source} is decided to {end} with {len(states)} states")
                continue
            if states[0].inline is None and not is_newest:
                continue
            found = stage.decided_state(source, decision, states[0])
            if found != wanted:
                raise self.violated(f"{source} is decided to {end} with {found}; a replay gives {wanted}")
