"""``stage_output_is_replay``: what each writer of a stage has in each output partition is what a replay of the stage's
recorded inputs gives there, in its order: nothing else at any time, and all of it as far as it is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.flows.recorded import StoredRecord
    from semel.sim.flows.replay import Made, Replayed
    from semel.sim.flows.view import FlowView, StageView


class StageOutputIsReplay(Checker):
    """By key and value; rows that no step could take go by what came in."""

    name: ClassVar[str] = "stage_output_is_replay"

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        for view in views:
            for stage in view.stages:
                for source in stage.story.sources:
                    self._judge(stage, source, stage.replayed(source))

    def _judge(self, stage: StageView, source: TopicPartition, replayed: Replayed) -> None:
        counts, plan = stage.flow.story.partition_counts, stage.flow.story.plan
        for topic in (stage.stage.output.topic, plan.bad_topic, plan.late_topic):
            for number in range(counts[topic]):
                tp = TopicPartition(topic, number)
                self._compare(stage, source, tp, replayed.rows.get(tp, []))

    def _compare(
        self, stage: StageView, source: TopicPartition, tp: TopicPartition, due: Sequence[Made]
    ) -> None:
        stored = stage.written(source, tp)
        for place, record in enumerate(stored):
            if place >= len(due) or not _is(record, due[place]):
                wanted = due[place] if place < len(due) else "nothing more"
                raise self.violated(
                    f"{stage.story.sink_id} wrote {record} of {source} to {tp} as row {place}; a replay gives {wanted}"
                )
        decided = stage.decided_end(source)
        wanted_count = sum(made.due <= decided for made in due)
        end = stage.decisions[-1].output_ends.get(tp, 0) if stage.decisions else 0
        stored_count = sum(record.record_offset < end for record in stored)
        if stored_count < wanted_count:
            raise self.violated(
                f"{stage.story.sink_id} has decided {source} to {decided}, and {tp} has {stored_count} of the "
                f"{wanted_count} rows of it below {end}: {due[stored_count]} is missing"
            )


def _is(record: StoredRecord, made: Made) -> bool:
    from semel.sim.flows.replay import read_row

    value = record.value if isinstance(made.value, bytes) else read_row(record.value)
    return record.key == made.key and value == made.value
