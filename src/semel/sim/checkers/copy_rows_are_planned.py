"""``copy_rows_are_planned``: whatever a copy has stored was said before, in a record of the journal that counts.

So whoever takes the job over knows of every row in flight, and by its sequence which row of the source it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from semel.core.copy.spans import row_count
from semel.sim.checkers.base import Checker
from semel.types import ProducerGrant

if TYPE_CHECKING:
    from semel.record.batch import BatchHeader
    from semel.sim.copies.ledger import TopicLog
    from semel.sim.copies.view import CopyView


class CopyRowsArePlanned(Checker):
    """At every look, by the journal as it can be read then."""

    name: ClassVar[str] = "copy_rows_are_planned"

    def __init__(self) -> None:
        self._done: dict[TopicLog, int] = {}

    def copy_looked(self, view: CopyView) -> None:
        for place, log in view.outputs():
            done = min(self._done.get(place, 0), len(log.batches))
            for header in log.batches[done:]:
                if not header.is_control and not _is_planned(view, place, header):
                    raise self.violated(
                        f"{place.tp} has rows at offset {header.base_offset}, under sequences {header.base_sequence} "
                        f"to {header.last_sequence} of {header.producer_id}/{header.producer_epoch}, which nobody said"
                    )
            self._done[place] = len(log.batches)


def _is_planned(view: CopyView, place: TopicLog, header: BatchHeader) -> bool:
    grant = ProducerGrant(header.producer_id, header.producer_epoch)
    return any(
        chunk.sequence <= header.base_sequence
        and header.last_sequence < chunk.sequence + row_count(chunk.spans)
        for chunk in view.journal.planned.get((view.source_of(place.tp), grant), ())
    )
