"""``copy_zombies_shut_out``: nothing of an older copy is stored behind what a newer one has begun with.

The journal's order says which is the newer one. What the older one had in flight stands in front of the end that the
newer one's BEGUN names, or nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker
from semel.types import ProducerGrant

if TYPE_CHECKING:
    from semel.sim.copies.ledger import TopicLog
    from semel.sim.copies.view import CopyView


class CopyZombiesShutOut(Checker):
    """At every look, by the offsets of whole batches."""

    name: ClassVar[str] = "copy_zombies_shut_out"

    def copy_looked(self, view: CopyView) -> None:
        if not view.journal.begun:
            return
        begun = view.journal.begun[-1]
        ends = {place.output_partition: place.output_end for place in begun.places}
        for place, log in view.outputs():
            if (
                place.tp not in ends or log.may_be_deleted or log.was_put_back
            ):  # the end may be of another log
                continue
            for header in reversed(log.batches):
                if header.base_offset < ends[place.tp]:
                    break
                by = ProducerGrant(header.producer_id, header.producer_epoch)
                if not header.is_control and self._is_older(view, by, begun.grant):
                    raise self.violated(self._evidence(place, header.base_offset, by, begun.grant))

    def _is_older(self, view: CopyView, by: ProducerGrant, holder: ProducerGrant) -> bool:
        ranks = view.journal.ranks
        return by in ranks and ranks[by] < ranks[holder]

    def _evidence(self, place: TopicLog, offset: int, by: ProducerGrant, holder: ProducerGrant) -> str:
        return f"{place.tp} has rows of {by} at offset {offset}, behind where {holder} began"
