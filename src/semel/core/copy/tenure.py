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
        return self.is_begun or any(
            history.held_epochs.get(grant.producer_id, -1) >= grant.producer_epoch for grant in self.grants
        )
