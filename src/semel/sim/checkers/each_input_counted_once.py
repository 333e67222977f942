"""``each_input_counted_once``: the entries of a merge log have every offset of each input once, from its first one on
and without a gap; the decided state counts each of their rows once; and a stage that has finished has decided all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.view import FlowView, StageView


class EachInputCountedOnce(Checker):
    """By the rows in the inputs and the numbers in the state: no replay is asked."""

    name: ClassVar[str] = "each_input_counted_once"

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                for source in stage.story.sources:
                    if stage.stage.is_stateful:
                        self._judge_entries(stage, source)
                    if stage.story.is_finished and stage.decided_end(source) < stage.end_to_decide(source):
                        raise self.violated(
                            f"{stage.story.sink_id} has finished, and {source} is decided to "
                            f"{stage.decided_end(source)} of {stage.end_to_decide(source)}"
                        )

    def _judge_entries(self, stage: StageView, source: TopicPartition) -> None:
        ends: dict[TopicPartition, int] = {}
        decided: dict[TopicPartition, int] = {}
        decided_end = stage.decided_end(source)
        for entry in stage.entries(source.partition):
            for each in entry.ranges:
                if each.from_offset != ends.get(each.tp, 0):
                    raise self.violated(
                        f"the entry at {source}@{entry.offset} has {each}, and those before end at "
                        f"{ends.get(each.tp, 0)}"
                    )
                ends[each.tp] = each.end_offset
                if each.end_offset > stage.flow.end(each.tp):
                    raise self.violated(
                        f"the entry at {source}@{entry.offset} has {each}, behind the log's end"
                    )
            if entry.offset < decided_end:
                decided = dict(ends)
        if stage.story.is_finished:
            for tp in stage.inputs(source.partition):
                if ends.get(tp, 0) < stage.flow.end(tp):
                    raise self.violated(f"{source} has {tp} up to {ends.get(tp, 0)} of {stage.flow.end(tp)}")
        if stage.decisions and stage.flow.story.doing.is_plain:
            self._judge_counts(stage, source, decided)

    def _judge_counts(
        self, stage: StageView, source: TopicPartition, decided: dict[TopicPartition, int]
    ) -> None:
        from semel.sim.flows.steps import count_in, counts_of

        rows_of = Counter(
            record.key or b""
            for tp, end in decided.items()
            for record in stage.flow.records(tp)
            if record.record_offset < end
        )
        state = stage.newest_state(source)
        if state is None or isinstance(state, str):  # that there is none is for others to say
            return
        found = {key: count_in(each) for key, each in state.items()}
        wanted = counts_of(stage.flow.story.doing, rows_of)
        if found != wanted:
            raise self.violated(f"{source} counts {found} rows of its keys, and its inputs have {wanted}")
