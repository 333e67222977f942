from __future__ import annotations

import pytest

from semel.core.log.admission import AppendOrigin, inadmissible
from semel.core.log.config import LOG_APPEND_TIME, LogConfig
from semel.errors import CorruptRecordBatch, ErrorCode
from semel.record.batch import (
    DELETE_HORIZON_BIT,
    BatchHeader,
    Compression,
    Record,
    TimestampType,
    assemble_batch,
    decode_header,
    encode_batch,
)
from semel.record.control import encode_abort_marker
from semel.types import LEASED_IDS_FROM

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def header(**changes: int) -> BatchHeader:
    batch = encode_batch(
        [Record(n, NOW_MS, None, b"v") for n in range(3)], producer_id=1, producer_epoch=0, base_sequence=0
    )
    return decode_header(batch)._replace(**changes)


def code(
    changed: BatchHeader, config: LogConfig | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ErrorCode:
    refused = inadmissible(changed, config or LogConfig(), NOW_MS, origin)
    return ErrorCode.NONE if refused is None else refused.error_code


def test_an_honest_batch_may_enter() -> None:
    assert code(header()) is ErrorCode.NONE
    assert code(header(producer_id=-1, producer_epoch=-1, base_sequence=-1)) is ErrorCode.NONE
    assert code(header(max_timestamp=-1)) is ErrorCode.NONE
    assert code(header(max_timestamp=NOW_MS + HOUR_MS)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batch_length": 2_000_000}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"attributes": TimestampType.LOG_APPEND_TIME << 3}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": DELETE_HORIZON_BIT}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 9}, ErrorCode.INVALID_RECORD),
        ({"producer_id": -7}, ErrorCode.INVALID_RECORD),
        ({"producer_epoch": -1}, ErrorCode.INVALID_RECORD),
        ({"base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"max_timestamp": NOW_MS + HOUR_MS + 1}, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_what_may_not(changes: dict[str, int], expected: ErrorCode) -> None:
    assert code(header(**changes)) is expected


def test_a_transaction_needs_somebody_who_vouches_for_it() -> None:
    transactional = header(attributes=0x10)
    for origin, expected in (
        (AppendOrigin.CLIENT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (AppendOrigin.TRANSACTION, ErrorCode.NONE),
        (AppendOrigin.COORDINATOR, ErrorCode.NONE),
    ):
        assert code(transactional, origin=origin) is expected
    vouched_for = AppendOrigin.TRANSACTION
    assert code(header(), origin=vouched_for) is ErrorCode.NONE
    assert code(header(attributes=0x30), origin=vouched_for) is ErrorCode.INVALID_RECORD
    assert code(header(attributes=0x18), origin=vouched_for) is ErrorCode.INVALID_TIMESTAMP
    assert code(transactional._replace(record_count=0), origin=vouched_for) is ErrorCode.INVALID_RECORD
    assert code(transactional._replace(base_sequence=-1), origin=vouched_for) is ErrorCode.INVALID_RECORD
    for producer_id in (-1, LEASED_IDS_FROM):
        whose = transactional._replace(producer_id=producer_id)
        assert code(whose, origin=vouched_for) is ErrorCode.INVALID_RECORD


def test_a_coordinator_may_write_what_it_likes() -> None:
    marker = decode_header(encode_abort_marker(7, 2, 0, NOW_MS))
    assert code(marker) is ErrorCode.INVALID_RECORD
    assert code(marker, LogConfig(max_message_bytes=60), AppendOrigin.COORDINATOR) is ErrorCode.NONE


def test_a_log_that_stamps_its_own_time_takes_any() -> None:
    config = LogConfig(message_timestamp_type=LOG_APPEND_TIME)
    assert code(header(max_timestamp=2**62), config) is ErrorCode.NONE


def test_no_small_batch_claims_more_records_than_could_be_read() -> None:
    """Each such batch would use up a segment's offsets, and with them three open files."""
    batch = assemble_batch(
        b"x" * 40, record_count=2**31 - 1, last_offset_delta=2**31 - 2, compression=Compression.GZIP
    )
    with pytest.raises(CorruptRecordBatch, match="claims 2147483647 records"):
        decode_header(batch)
