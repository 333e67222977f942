"""Leader epochs as a log's batches carry them, for a checkpoint that is damaged, or is of before the newest batches.

Epochs only rise along a log. So a segment is walked only where its first batch and what comes next are of two epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from semel.core.log.leader_epochs import LeaderEpochs, assign
from semel.server.storage.segment import Segment


def epochs_in_log(segments: Sequence[Segment], newest: int) -> LeaderEpochs:
    """Those of ``segments``, oldest first, of which the last batch is of epoch ``newest``."""
    full = [segment for segment in segments if segment.size_bytes]
    firsts = [segment.leader_epoch_at(0) for segment in full]
    epochs: LeaderEpochs = ()
    for segment, (first, behind) in zip(full, pairwise([*firsts, newest]), strict=True):
        epochs = assign(epochs, first, segment.base_offset)
        if first != behind:
            for place in segment.walk(0, segment.size_bytes):
                epochs = assign(epochs, segment.leader_epoch_at(place.position), place.base_offset)
    return epochs
