"""What a log holds of a producer, read from its records: when nobody remembers the producer any more."""

from __future__ import annotations

from typing import Final

from semel.client.cluster import Cluster
from semel.core.client.events import LastStored, LogAnswered, ReadBack
from semel.core.client.resume import Behind
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import BatchHeader, scan_batches
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition

_FETCH_BYTES: Final = 1024 * 1024
_READ_BYTES_MAX: Final = 1 << 30  # else whoever asked goes without
_SHUT: Final = (
    ErrorCode.NONE,
    ErrorCode.INVALID_PRODUCER_EPOCH,  # by a higher epoch already
    ErrorCode.UNKNOWN_PRODUCER_ID,  # with all leases that its server knows nothing of: an older state was put back
)


async def read_back(cluster: Cluster, ask: ReadBack) -> LogAnswered:
    """Shut the grant out of the partition, then find the last sequence that the log has of it.

    What can be read is committed, whichever leader shows it, and stays. So that something is there needs no fence; only
    that it is not there, and never comes to be.
    """
    tp, grant = ask.tp, ask.grant
    if ask.shuts_out:
        await _shut_out(cluster, tp, grant)
    start = await _offset(cluster, tp, EARLIEST_TIMESTAMP)
    end = await _offset(cluster, tp, LATEST_TIMESTAMP)
    from_offset = 0 if ask.behind is None else ask.behind.end_offset
    is_cut = not start <= from_offset <= end  # trimmed; or the topic was deleted and made again
    if ask.behind is not None and start < from_offset <= end:
        is_cut = not await _has(cluster, tp, ask.behind)  # made again, and as long again
    if is_cut and not ask.shuts_out:
        raise BrokerError(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"read {tp} back: it does not reach to {from_offset}"
        )
    size_bytes = 0
    last_sequence = None if ask.shuts_out or ask.behind is None else ask.behind.last_sequence
    behind = Behind(start if is_cut else from_offset)
    while behind.offset < end:
        records = await _records(cluster, tp, behind.offset)
        size_bytes += len(records)
        if size_bytes > _READ_BYTES_MAX:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"read {tp} back: it is too long")
        for _, header in scan_batches(records, allow_partial_tail=True, check_crc=False):
            is_its = _is_of(header, grant)
            behind.read(header, is_its=is_its)
            if is_its:
                last_sequence = header.last_sequence
    return LogAnswered(
        tp,
        grant.producer_epoch,
        last_sequence,
        grant,
        is_final=ask.shuts_out,
        is_cut=is_cut,
        is_compacted=behind.lacks_some,
    )


async def _shut_out(cluster: Cluster, tp: TopicPartition, grant: ProducerGrant) -> None:
    fence = (grant.producer_id, grant.producer_epoch + 1)
    code = (await cluster.write_fence({fence: [tp]}))[grant.producer_id, tp]
    if code not in _SHUT:
        raise BrokerError(code, f"shut producer {grant.producer_id} out of {tp}")


async def _has(cluster: Cluster, tp: TopicPartition, stored: LastStored) -> bool:
    """Whether the log is still the one that this was stored in."""
    records = await _records(cluster, tp, stored.end_offset - 1, bytes_max=1)  # which is a whole batch
    return any(
        _is_of(header, stored.grant)
        and (header.last_offset + 1, header.last_sequence) == (stored.end_offset, stored.last_sequence)
        for _, header in scan_batches(records, allow_partial_tail=True, check_crc=False)
    )


def _is_of(header: BatchHeader, grant: ProducerGrant) -> bool:
    whose = ProducerGrant(header.producer_id, header.producer_epoch)
    return whose == grant and not header.is_control


async def _records(
    cluster: Cluster, tp: TopicPartition, offset: int, bytes_max: int = _FETCH_BYTES
) -> memoryview:
    fetched = await cluster.fetch({tp: offset}, isolation="read_uncommitted", partition_max_bytes=bytes_max)
    if fetched[tp].error_code:
        raise BrokerError(fetched[tp].error_code, f"read {tp} back")
    if not fetched[tp].records:  # below the end that it had
        raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, f"read {tp} back: it ends at offset {offset} now")
    return fetched[tp].records


async def _offset(cluster: Cluster, tp: TopicPartition, timestamp_ms: int) -> int:
    return (await cluster.list_offsets({tp: timestamp_ms}, "read_uncommitted"))[tp].offset
