"""What a log holds of a producer, read from its records: when nobody remembers the producer any more."""

from __future__ import annotations

from typing import Final

from semel.client.cluster import Cluster
from semel.core.client.events import ReadBack
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import scan_batches
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_READ_BYTES_MAX: Final = 1 << 30  # else whoever asked goes without
_SHUT: Final = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)  # the second: by a higher epoch already


async def read_back(cluster: Cluster, ask: ReadBack) -> int | None:
    """The last sequence that the log has of the grant, which is shut out first; None without any."""
    tp, grant = ask.tp, ask.grant
    fence = (grant.producer_id, grant.producer_epoch + 1)
    code = (await cluster.write_fence({fence: [tp]}))[grant.producer_id, tp]
    if code not in _SHUT:
        raise BrokerError(code, f"shut producer {grant.producer_id} out of {tp}")
    start = await _offset(cluster, tp, EARLIEST_TIMESTAMP)
    if start > ask.from_offset:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"read {tp} back: it begins at {start} by now")
    end = await _offset(cluster, tp, LATEST_TIMESTAMP)
    offset, size_bytes, last_sequence = ask.from_offset, 0, None
    while offset < end:
        fetched = (await cluster.fetch({tp: offset}, isolation="read_uncommitted"))[tp]
        if fetched.error_code:
            raise BrokerError(fetched.error_code, f"read {tp} back")
        size_bytes += len(fetched.records)
        if size_bytes > _READ_BYTES_MAX:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"read {tp} back: it is too long")
        for _, header in scan_batches(fetched.records, allow_partial_tail=True, check_crc=False):
            offset = header.last_offset + 1
            is_theirs = (header.producer_id, header.producer_epoch) == (
                grant.producer_id,
                grant.producer_epoch,
            )
            if is_theirs and not header.is_control:
                last_sequence = header.last_sequence
    return last_sequence


async def _offset(cluster: Cluster, tp: TopicPartition, timestamp_ms: int) -> int:
    return (await cluster.list_offsets({tp: timestamp_ms}, "read_uncommitted"))[tp].offset
