"""Whether a job is still this process's own: its runs follow on each other by themselves, and on nobody else's.

A copy that has lost its connection, or has grown old, takes the job over from itself. Where another copy has held the
job since, that one is the newer, and this one has to stop: else the two would take turns for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.copy.history import CopyHistory
from semel.types import ProducerGrant


@dataclass(slots=True)
class Tenure:
    """What one process knows of its own holding, over all its runs."""

    grants: set[ProducerGrant] = field(default_factory=set)  # also where the answer to its HELD was lost
    is_begun: bool = False  # a HELD of them is surely stored

    def is_over(self, history: CopyHistory) -> bool:
        """Whether a newer copy holds the job, by the journal; ``False`` where none of the grants ever held it."""
        if history.holder is None or history.holder.grant in self.grants:
            return False
        return self.is_begun or self.is_behind(history)

    def is_behind(self, history: CopyHistory) -> bool:
        """Whether the journal has come as far as one of the grants, so that whoever else holds the job is newer.

        Else it was cut behind a newer copy that has another producer id, or has lost its end, and nobody can say which.
        """
        return any(
            history.held_epochs.get(grant.producer_id, -1) >= grant.producer_epoch for grant in self.grants
        )

    def is_set_back(self, history: CopyHistory) -> bool:
        """Whether the journal has surely lost its end: a HELD of the grants was stored, and an older one, or none, is
        the last now. A cut leaves a BEGUN, of somebody newer."""
        if not self.is_begun or self.is_behind(history):
            return False
        return history.holder is None or any(
            grant.producer_id == history.holder.grant.producer_id for grant in self.grants
        )
