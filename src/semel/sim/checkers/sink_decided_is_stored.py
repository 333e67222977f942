"""``sink_decided_is_stored``: what a DECISION says is in the output is there, and no later one takes it back.

After every recovery too: a decision must not outlive the rows that it speaks of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.view import SinkView


class SinkDecidedIsStored(Checker):
    """By the decided ends of the source's partitions."""

    name: ClassVar[str] = "sink_decided_is_stored"

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            ends: dict[TopicPartition, int] = {}
            for decision in view.decisions:
                for tp, end in view.numbers_decided(decision).items():
                    if end < ends.get(tp, 0):
                        raise self.violated(f"{tp} was decided to {ends[tp]}, and then to {end}: {decision}")
                    ends[tp] = end
            if not view.is_whole:
                continue
            there = {(one.row.source_partition, one.row.number) for one in view.rows if not one.row.is_extra}
            for tp, end in ends.items():
                missing = [
                    number
                    for number in range(end)
                    if (tp.partition, number) not in there and not view.story.may_be_lost(tp, number)
                ]
                if missing:
                    raise self.violated(
                        f"{tp} is decided to {end}, and rows {missing[:5]} are not in the output"
                    )
