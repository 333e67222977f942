"""What a reader hands on of what it fetched: as Kafka's own client does it (``CompletedFetch``).

The aborted transactions of the answer count in the order of their first offsets. A producer counts as aborted from
there on to its next abort marker; its rows are passed over, and so is every marker.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import Final

from semel.record.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, decode_header, decode_records
from semel.record.control import is_abort
from semel.wire.fetch import FetchedPartition
from semel.wire.frames import INT32

_LENGTH_AT: Final = 8


def taken(
    answer: FetchedPartition, from_offset: int, *, is_committed: bool
) -> tuple[int, list[tuple[int, bytes]]]:
    """Where to read on, and the rows with their offsets."""
    to_come = deque(sorted(answer.aborted or (), key=itemgetter(1)))
    aborted: set[int] = set()
    window, position, next_offset = bytes(answer.records or b""), 0, from_offset
    rows: list[tuple[int, bytes]] = []
    while len(window) - position >= HEADER_BYTES:
        end = position + LOG_OVERHEAD_BYTES + INT32.unpack_from(window, position + _LENGTH_AT)[0]
        if end > len(window):
            break
        batch = window[position:end]
        header, position = decode_header(batch), end
        while is_committed and to_come and to_come[0][1] <= header.last_offset:
            aborted.add(to_come.popleft()[0])
        next_offset = max(next_offset, header.last_offset + 1)
        if header.is_control:
            if is_abort(batch):
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            rows += [
                (one.offset, one.value or b"") for one in decode_records(batch) if one.offset >= from_offset
            ]
    return next_offset, rows
