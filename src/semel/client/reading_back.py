"""What a log holds of a producer, read from its records: when nobody remembers the producer any more."""

from __future__ import annotations

from typing import Final

from semel.client.cluster import Cluster
from semel.core.client.events import LogAnswered, ReadBack
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import scan_batches
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_READ_BYTES_MAX: Final = 1 << 30  # else whoever asked goes without
_SHUT: Final = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)  # the second: by a higher epoch already


async def read_back(cluster: Cluster, ask: ReadBack) -> LogAnswered:
    """Shut the grant out of the partition, then find the last sequence that the log has of it."""
    tp, grant = ask.tp, ask.grant
    fence = (grant.producer_id, grant.producer_epoch + 1)
    code = (await cluster.write_fence({fence: [tp]}))[grant.producer_id, tp]
    if code not in _SHUT:
        raise BrokerError(code, f"shut producer {grant.producer_id} out of {tp}")
    start = await _offset(cluster, tp, EARLIEST_TIMESTAMP)
    end = await _offset(cluster, tp, LATEST_TIMESTAMP)
    is_cut = not start <= ask.from_offset <= end  # trimmed; or the topic was deleted and made again
    offset = start if is_cut else ask.from_offset
    size_bytes, last_sequence = 0, None
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
    return LogAnswered(tp, grant.producer_epoch, last_sequence, grant, is_final=True, is_cut=is_cut)


async def _offset(cluster: Cluster, tp: TopicPartition, timestamp_ms: int) -> int:
    return (await cluster.list_offsets({tp: timestamp_ms}, "read_uncommitted"))[tp].offset
