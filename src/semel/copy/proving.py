"""Whether the outputs still have what was surely stored there: by the batch that it ended with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.client.blocking import Cluster
from semel.core.copy.journal import Mark
from semel.core.copy.resume import Ending, Lost
from semel.errors import BrokerError, ConnectionLost, ErrorCode
from semel.record.batch import BatchHeader, scan_batches
from semel.spark.process import this_process
from semel.spark.sink_log import APPEND_TIMEOUT_MS, RETRY_PAUSE_MS
from semel.spark.takeover import listed
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

LOOK_TIMEOUT_MS: Final = 30_000  # an output that is put back while it is read has no more to come


def prove(
    destination: Cluster, endings: Mapping[TopicPartition, Ending], outputs: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Mark], dict[TopicPartition, Lost]]:
    """Where ``outputs`` end, the batches that they end with, and which of them have lost what they surely had.

    The ends are asked for first: what is put back from then on is found by the next one who asks for these batches.
    """
    ends = listed(destination, outputs, LATEST_TIMESTAMP)
    lost = {
        tp: Lost(f"it was written up to offset {ending.last_offset + 1}, and ends at {ends[tp]}")
        for tp, ending in endings.items()
        if ends[tp] <= ending.last_offset
    }
    wanted = {tp: ending.last_offset for tp, ending in endings.items() if tp not in lost}
    found = headers_at(destination, wanted)
    for tp, header in found.items():
        why = endings[tp].missing(header)
        if why is not None:
            lost[tp] = Lost(why)
    for tp, end in listed(destination, [tp for tp in wanted if tp not in found], LATEST_TIMESTAMP).items():
        if end <= wanted[tp]:
            lost[tp] = Lost(f"it ended at {ends[tp]} a moment ago, and ends at {end}")
    last = headers_at(destination, {tp: end - 1 for tp, end in ends.items() if end})
    marks = {tp: Mark(header.last_offset, header.crc) for tp, header in last.items()}
    return ends, {tp: mark for tp, mark in marks.items() if mark.last_offset == ends[tp] - 1}, lost


def headers_at(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, BatchHeader]:
    """The batches that have these offsets, or the next ones; none where it was trimmed, or is gone by now."""
    begins = listed(cluster, list(offsets), EARLIEST_TIMESTAMP)
    left = {tp: offset for tp, offset in offsets.items() if offset >= begins[tp]}
    found: dict[TopicPartition, BatchHeader] = {}
    clock = this_process().clock
    deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
    while left:
        before = len(left)
        for tp, fetched in cluster.fetch(left, isolation="read_uncommitted").items():
            code = fetched.error_code
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                del left[tp]
            elif code is ErrorCode.NONE:
                batches = scan_batches(fetched.records, allow_partial_tail=True)
                header = next((each for _, each in batches if each.last_offset >= left[tp]), None)
                if header is not None:  # an answer has one batch at least, whatever its size
                    found[tp] = header
                    del left[tp]
            elif not code.retriable:
                raise BrokerError(
                    code, f"reading {tp} at offset {left[tp]} (nothing was copied; start it again)"
                )
        if len(left) == before:
            if clock.elapsed_ms() > deadline_ms:
                raise ConnectionLost(f"{', '.join(map(str, left))} cannot be read now. Nothing was copied")
            clock.pause(RETRY_PAUSE_MS)
    return found
