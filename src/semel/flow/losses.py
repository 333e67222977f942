"""What whoever runs a flow can do about rows of an input that are gone: a flow has no option of a source to set.

The same of a batch that was damaged. (One that was produced so goes to the flow's ``bad`` topic.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from semel.errors import DataLoss, UnreadableBatch

LOSS_REMEDY: Final = (
    "What is decided stays. The flow cannot go on without them: put them back from a copy of the topic, or run it "
    "under another name, into new topics, to begin with what is left"
)
DAMAGE_REMEDY: Final = (
    "what is decided stays, and the flow does not go past it. Put the topic back from a copy, and run the flow again; "
    "or run it under another name, over a copy of the topic that leaves the batch out (semel copy --dead-letter)"
)


@contextmanager
def told_to_a_flow() -> Iterator[None]:
    """A loss or a damage that the source finds, with the flow's way out in place of the source's."""
    try:
        yield
    except DataLoss as lost:
        told = DataLoss(lost.partition, lost.lost_from, lost.lost_to_end, lost.why, LOSS_REMEDY)
        raise told from lost
    except UnreadableBatch as found:
        raise found.with_way_on(DAMAGE_REMEDY) from found
