"""Whether a client's batch may enter a log at all, before anybody asks who sent it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.core.log.config import LogConfig
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.types import NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class Inadmissible:
    """The batch can never be stored as it is."""

    error_code: ErrorCode
    reason: str


def inadmissible(header: BatchHeader, config: LogConfig) -> Inadmissible | None:
    """Why the batch cannot enter; ``None`` when it can."""
    if header.size_bytes > config.max_message_bytes:
        limit = f"max.message.bytes is {config.max_message_bytes}"
        return Inadmissible(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes; {limit}")
    if header.is_control:
        return Inadmissible(ErrorCode.INVALID_RECORD, "clients cannot write control batches")
    if header.is_transactional:
        return Inadmissible(ErrorCode.INVALID_TXN_STATE, "transactions are not supported yet")
    if header.record_count == 0 or not header.is_dense:
        return Inadmissible(ErrorCode.INVALID_RECORD, "a batch must count one record for each of its offsets")
    if header.producer_id != NO_PRODUCER_ID and (header.producer_id < 0 or header.producer_epoch < 0):
        return Inadmissible(ErrorCode.INVALID_RECORD, "a negative producer id or epoch")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        return Inadmissible(ErrorCode.INVALID_RECORD, "a producer id without a sequence")
    return None
