"""Fetch requests of the plain form that can be answered at once, with records left in their files.

Invariant: the answer is, byte for byte, what :mod:`semel.server.handlers.fetch` would say. Whatever is refused,
damaged, or has to wait is left to that, and so are rows of aborted transactions: None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from semel.core.log.watermarks import FetchIsolation
from semel.server.broker import Broker
from semel.server.handlers.fetch import isolation_of
from semel.server.outcome import Answer, AnswerInFiles
from semel.server.storage.outcome import OffsetOutOfRange, Slice
from semel.server.storage.partition import Partition
from semel.types import NO_LEADER_EPOCH
from semel.wire.api import ApiKey
from semel.wire.plain_fetch import Asked, Found, PlainForm

_FETCH: Final = int(ApiKey.FETCH)
_IN_FILE_BYTES_MIN: Final = 128 * 1024  # below this, two copies cost less than two more system calls


def handle(
    broker: Broker,
    form: PlainForm,
    correlation_id: int,
    asked: Sequence[Asked],
    answer_bytes_max: Callable[[], int],
) -> Answer | AnswerInFiles | None:
    """Answer it, or leave it to the general handler."""
    storage = broker.storage
    topic = form.topic
    if not isinstance(topic, str):
        known = storage.topics.by_id(topic)
        if known is None:
            return None
        topic = known.name
    bytes_max = min(form.max_bytes, broker.settings.fetch_max_bytes, answer_bytes_max())
    pieces: list[tuple[int, Partition, Slice]] = []
    size_bytes, isolation = 0, isolation_of(form.isolation_level)
    committed = isolation is FetchIsolation.TXN_COMMITTED
    try:
        for number, leader_epoch, offset, last_fetched_epoch, partition_max_bytes in asked:
            partition = storage.partition(topic, number)
            if partition is None or not partition.is_online:
                return None
            if leader_epoch not in (NO_LEADER_EPOCH, partition.leader_epoch):
                return None
            if partition.parts_from(last_fetched_epoch, offset) is not None:
                return None
            limit_bytes = max(min(partition_max_bytes, bytes_max - size_bytes), 0)
            piece = partition.read(offset, limit_bytes, isolation, at_least_one=not size_bytes)
            if isinstance(piece, OffsetOutOfRange):
                return None
            if committed and piece.length and partition.aborted_in(offset, piece):
                return None
            size_bytes += piece.length
            pieces.append((number, partition, piece))
        if not size_bytes and not committed and any(partition.owes_sight for _, partition, _ in pieces):
            return None
        if form.max_wait_ms > 0 and size_bytes < min(form.min_bytes, bytes_max):
            return None
        found = [
            Found(
                number,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
                piece if piece.length >= _IN_FILE_BYTES_MIN else piece.read() if piece.length else b"",
            )
            for number, partition, piece in pieces
        ]
    except OSError:
        return None
    broker.counters.requests[_FETCH, form.version] += 1
    broker.counters.fetched_bytes += size_bytes
    parts = form.encode_answer(correlation_id, found)
    in_memory = [part for part in parts if not isinstance(part, Slice)]
    return AnswerInFiles(parts) if len(in_memory) < len(parts) else Answer(in_memory, is_framed=True)
