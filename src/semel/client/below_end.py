"""Reading a log below an end that it had: there is something, or the leader that was asked does not know it yet."""

from __future__ import annotations

from typing import Final

from semel.client.cluster import Cluster
from semel.client.model import Fetched
from semel.client.routing import Again
from semel.errors import ErrorCode, UnreadableBatch
from semel.record.batch import scan_batches
from semel.types import TopicPartition

_WAIT_MS: Final = 100
_FETCH_BYTES: Final = 8 * 1024 * 1024


async def fetch_below_end(cluster: Cluster, tp: TopicPartition, offset: int) -> Fetched:
    """What stands from ``offset`` on, uncommitted rows too; or an error that will not pass by itself.

    What passes is asked again for ``request_timeout_ms``, and then a ``BrokerError``. ``UnreadableBatch`` for an
    answer that leads no further, which whoever reads on would ask for without end.
    """

    async def read() -> Fetched:
        fetched = await cluster.fetch(
            {tp: offset},
            isolation="read_uncommitted",
            max_wait_ms=_WAIT_MS,
            partition_max_bytes=_FETCH_BYTES,
        )
        code = fetched[tp].error_code
        if code is ErrorCode.NONE and not fetched[tp].records:
            code = ErrorCode.OFFSET_NOT_AVAILABLE
        if code.retriable:
            raise Again(code, f"read {tp} from offset {offset} on")
        if code is ErrorCode.NONE and not _leads_on(fetched[tp].records, offset):
            why = "the answer holds no whole batch from there on"
            raise UnreadableBatch(tp, offset, None, why, "nobody can tell what is stored")
        return fetched[tp]

    return await cluster.retried(read)


def _leads_on(records: memoryview, offset: int) -> bool:
    batches = scan_batches(records, allow_partial_tail=True, check_crc=False)
    return any(header.last_offset >= offset for _, header in batches)
