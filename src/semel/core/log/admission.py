"""Whether a client's batch may enter a log at all, before anybody asks who sent it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.core.log.config import LogConfig
from semel.errors import ErrorCode
from semel.record.batch import CONTROL_BIT, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT, BatchHeader
from semel.types import NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class Inadmissible:
    """The batch can never be stored as it is."""

    error_code: ErrorCode
    reason: str


def inadmissible(header: BatchHeader, config: LogConfig) -> Inadmissible | None:
    """Why the batch cannot enter; ``None`` when it can."""
    # Taken apart once, because this is asked for every batch.
    _, batch_length, _, _, _, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, count = (
        header
    )
    if batch_length + LOG_OVERHEAD_BYTES > config.max_message_bytes:
        limit = f"max.message.bytes is {config.max_message_bytes}"
        return Inadmissible(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes; {limit}")
    if attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        if header.is_control:
            return Inadmissible(ErrorCode.INVALID_RECORD, "clients cannot write control batches")
        return Inadmissible(ErrorCode.INVALID_TXN_STATE, "transactions are not supported yet")
    if count == 0 or count != last_offset_delta + 1:
        return Inadmissible(ErrorCode.INVALID_RECORD, "a batch must count one record for each of its offsets")
    if producer_id != NO_PRODUCER_ID:
        if producer_id < 0 or epoch < 0:
            return Inadmissible(ErrorCode.INVALID_RECORD, "a negative producer id or epoch")
        if sequence < 0:
            return Inadmissible(ErrorCode.INVALID_RECORD, "a producer id without a sequence")
    return None
