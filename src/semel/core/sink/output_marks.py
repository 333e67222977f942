"""Whether an output still has the rows that are decided: a log may lose its end, and grow again.

A DECISION says of each output partition how far rows are decided, and under which leader epoch the log had them: that
of the leader which was asked once they were stored. Each leader has an epoch of its own, and a log is cut only where
one takes over. So a batch before such an end that is of a later epoch was written again, and the rows that stood there
are lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from semel.core.sink.refusal import anew, is_stage, subject
from semel.errors import DataLoss
from semel.types import NO_LEADER_EPOCH, TopicPartition


class OutputMark(NamedTuple):
    """All rows in front of ``end_offset`` were there under ``leader_epoch``."""

    end_offset: int
    leader_epoch: int


OutputMarks = Mapping[TopicPartition, OutputMark]


def next_marks(
    before: OutputMarks,
    output_ends: Mapping[TopicPartition, int],
    leader_epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, OutputMark]:
    """Of the outputs that a micro-batch has rows in; the others keep theirs, as do those whose epoch nobody says."""
    told = {
        tp: OutputMark(output_ends[tp], leader_epoch)
        for tp, leader_epoch in leader_epochs.items()
        if leader_epoch != NO_LEADER_EPOCH
    }
    return {**before, **told}


def has_lost_its_end(mark: OutputMark, log_end_offset: int, epoch_before_end: int) -> bool:
    """``epoch_before_end`` is that of the batch in front of the mark; ``NO_LEADER_EPOCH`` where retention took it."""
    return log_end_offset < mark.end_offset or epoch_before_end > mark.leader_epoch


def lost_output(sink_id: str, output: TopicPartition, mark: OutputMark, log_end_offset: int) -> DataLoss:
    """The error, with the ways on."""
    first = min(log_end_offset, mark.end_offset - 1)
    why = f"rows of {subject(sink_id)} are decided up to offset {mark.end_offset}, and the log has lost its end since"
    if log_end_offset >= mark.end_offset:
        why += ", and grew again; perhaps rows in front of them are gone, too"
    remedy = f"Nothing was written now. The exact way is {anew(sink_id)}"
    if not is_stage(sink_id):
        remedy += (
            f". To go on without them: a new sinkId, with a new checkpoint folder and startingOffsets=sink:{sink_id}; "
            f"rows of an unfinished micro-batch may then come a second time"
        )
    return DataLoss(output, first, mark.end_offset, why, remedy)
