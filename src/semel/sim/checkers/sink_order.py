"""``sink_order``: the rows of one writer lie in every output partition in the order of its source partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.view import SinkView, StoredRow


class SinkOrder(Checker):
    """A writer is known by its producer id. Rows of one key go to one partition, so they are in order too."""

    name: ClassVar[str] = "sink_order"

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            newest: dict[tuple[TopicPartition, int], StoredRow] = {}
            for stored in view.rows:
                before = newest.get((stored.tp, stored.producer_id))
                if before is not None and before.row.number > stored.row.number:
                    raise self.violated(f"{before}, and behind it {stored}")
                newest[stored.tp, stored.producer_id] = stored
