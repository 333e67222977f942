"""Whether a batch may enter a log at all, before anybody asks who sent it.

Kafka's ``LogValidator``, as far as a header goes. The records are not looked into: that would cost more than
all the rest of an append, and the CRC vouches that they are what their producer wrote. Whoever reads them
finds what is wrong with them before anything else happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.log.config import LOG_APPEND_TIME, LogConfig
from semel.errors import ErrorCode
from semel.record.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from semel.types import NO_PRODUCER_ID, is_leased

_NOBODY_VOUCHES: Final = "the batch is of a transaction, and the request names no transactional id"
_NOT_FOR_CLIENTS: Final = CONTROL_BIT | TRANSACTIONAL_BIT | LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT


class AppendOrigin(Enum):
    """Where a batch comes from (Kafka's ``AppendOrigin``)."""

    CLIENT = "client"
    TRANSACTION = "transaction"  # a client, for whose transaction the coordinator vouches
    COORDINATOR = "coordinator"  # the server itself made it, and knows what it is


@dataclass(frozen=True, slots=True)
class Inadmissible:
    """The batch can never be stored as it is."""

    error_code: ErrorCode
    reason: str


def inadmissible(
    header: BatchHeader, config: LogConfig, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
) -> Inadmissible | None:
    """Why the batch cannot enter; ``None`` when it can. What a coordinator writes always can."""
    if origin is AppendOrigin.COORDINATOR:
        return None
    # Taken apart once, because this is asked for every batch.
    _, batch_length, _, _, _, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, count = (
        header
    )
    if batch_length + LOG_OVERHEAD_BYTES > config.max_message_bytes:
        limit = f"max.message.bytes is {config.max_message_bytes}"
        return Inadmissible(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes; {limit}")
    if attributes & _NOT_FOR_CLIENTS:
        vouched_for = TRANSACTIONAL_BIT if origin is AppendOrigin.TRANSACTION else 0
        if attributes & _NOT_FOR_CLIENTS != vouched_for:
            return _forbidden(header._replace(attributes=attributes & ~vouched_for))
        # A lease ends at its time; then nothing could end its transaction.
        if producer_id == NO_PRODUCER_ID or is_leased(producer_id):
            reason = "a transaction's batch needs a producer id, and not a leased one"
            return Inadmissible(ErrorCode.INVALID_RECORD, reason)
    if count == 0 or count != last_offset_delta + 1:
        return Inadmissible(ErrorCode.INVALID_RECORD, "a batch must count one record for each of its offsets")
    if producer_id != NO_PRODUCER_ID:
        if producer_id < 0 or epoch < 0:
            return Inadmissible(ErrorCode.INVALID_RECORD, "a negative producer id or epoch")
        if sequence < 0:
            return Inadmissible(ErrorCode.INVALID_RECORD, "a producer id without a sequence")
    ahead_ms = header.max_timestamp - now_ms
    if ahead_ms > config.message_timestamp_after_max_ms and config.message_timestamp_type != LOG_APPEND_TIME:
        limit = f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
        return Inadmissible(ErrorCode.INVALID_TIMESTAMP, f"a record {ahead_ms} ms in the future; {limit}")
    return None


def _forbidden(header: BatchHeader) -> Inadmissible:
    if header.is_control:
        return Inadmissible(ErrorCode.INVALID_RECORD, "clients cannot write control batches")
    if header.is_transactional:  # as ``KafkaApis.handleProduceRequest`` has it
        return Inadmissible(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NOBODY_VOUCHES)
    if header.has_delete_horizon:
        return Inadmissible(ErrorCode.INVALID_RECORD, "only compaction gives a batch a delete horizon")
    return Inadmissible(ErrorCode.INVALID_TIMESTAMP, "only the log stamps records with its own time")
