"""What a driver asks the outputs for, so that decided rows are never missing in silence (core/sink/output_marks)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.client.blocking import Cluster
from semel.client.model import ListedOffset
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import OutputTopic
from semel.core.sink.output_marks import OutputMark, has_lost_its_end, lost_output
from semel.errors import DataLoss
from semel.spark.process import this_process
from semel.spark.reading import headers_in
from semel.types import LATEST_TIMESTAMP, NO_LEADER_EPOCH, TopicPartition

PATIENCE_MS = 5_000
_PAUSE_MS: Final = 200


def leader_epochs_of(
    cluster: Cluster, sink_id: str, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The leader epochs under which the outputs have all rows up to ``ends``, which were acknowledged."""
    listed = _listed(cluster, ends)
    for tp, end in sorted(ends.items()):
        if listed[tp].offset < end:
            raise lost_output(sink_id, tp, OutputMark(end, NO_LEADER_EPOCH), listed[tp].offset)
    return {tp: each.leader_epoch for tp, each in listed.items()}


def check_outputs(cluster: Cluster, history: SinkHistory, found: Mapping[str, OutputTopic]) -> None:
    """:class:`DataLoss` where an output has lost decided rows, also if it has grown beyond them since."""
    marks = {} if history.decision is None else history.decision.output_marks
    marks = {tp: mark for tp, mark in sorted(marks.items()) if _is_the_same(history, found, tp)}
    listed = _listed(cluster, {tp: mark.end_offset for tp, mark in marks.items()})
    for tp, mark in marks.items():
        log_end_offset = listed[tp].offset
        is_known = log_end_offset < mark.end_offset or listed[tp].leader_epoch == mark.leader_epoch
        epoch = NO_LEADER_EPOCH if is_known else _epoch_at(cluster, tp, mark.end_offset - 1)
        if has_lost_its_end(mark, log_end_offset, epoch):
            raise lost_output(history.sink_id, tp, mark, log_end_offset)


def _listed(cluster: Cluster, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
    """The logs' ends, asked for again where one lies in front: a leader of before may be late to hear of its end."""
    if not ends:
        return {}
    clock = this_process().clock
    deadline_ms = clock.elapsed_ms() + PATIENCE_MS
    while True:
        listed = cluster.list_offsets(dict.fromkeys(ends, LATEST_TIMESTAMP), isolation="read_uncommitted")
        if all(listed[tp].offset >= end for tp, end in ends.items()) or clock.elapsed_ms() >= deadline_ms:
            return listed
        clock.pause(_PAUSE_MS)
        cluster.look_elsewhere(sorted({tp.topic for tp in ends}))


def _is_the_same(history: SinkHistory, found: Mapping[str, OutputTopic], tp: TopicPartition) -> bool:
    there, written = found.get(tp.topic), history.outputs.get(tp.topic)
    return there is not None and written is not None and there.topic_id == written.topic_id


def _epoch_at(cluster: Cluster, tp: TopicPartition, offset: int) -> int:
    """Of the batch with this offset; ``NO_LEADER_EPOCH`` where the log has it no longer."""
    try:
        for header in headers_in(cluster, tp, offset, offset + 1, partition_bytes_max=1):
            if header.base_offset <= offset <= header.last_offset:
                return header.partition_leader_epoch
    except DataLoss:
        pass  # retention, or a trim: decided rows may go so, as they may by compaction
    return NO_LEADER_EPOCH
