"""What whoever runs a flow can do about rows of an input that are gone: a flow has no option of a source to set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from semel.errors import DataLoss

LOSS_REMEDY: Final = (
    "What is decided stays. The flow cannot go on without them: put them back from a copy of the topic, or run it "
    "under another name, into new topics, to begin with what is left"
)


@contextmanager
def told_to_a_flow() -> Iterator[None]:
    """A loss that the source finds, with the flow's way out in place of the source's."""
    try:
        yield
    except DataLoss as lost:
        told = DataLoss(lost.partition, lost.lost_from, lost.lost_to_end, lost.why, LOSS_REMEDY)
        raise told from lost
