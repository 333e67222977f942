"""Appends whose records have to be looked into: beside the event loop, and then they are appended.

Those to topics with a ``compression.type`` of their own are compressed again; of a compacted topic's each record must
have a key, and where the age of records is bounded each is asked for its time (``LogValidator.validateRecord``). Of a
batch that is refused for its times the records are named (:mod:`semel.record.invalid`). Such a batch waits in its
topic's line (:class:`semel.server.outcome.Compressing`). When its turn has come, a thread decompresses and checks its
records, and compresses them; back on the loop it is appended like any other batch, and only there it is judged, by who
wrote it and what came before.

Invariants
- The requests of a connection take effect in their order: it is the shell that lets none begin behind one that waits
  here (:mod:`semel.server.in_order`). Within a request what comes behind a batch that waits goes into the line, too.
- A batch that has the codec already, of a topic that does not judge records, is stored as it came, and does not wait
  unless it must for order's sake.
- What waits is bounded (``queued.max.request.bytes``), at one request a connection, or those of one read for one
  partition; what is being worked on is one batch and up to ``_PIECE_BYTES`` of records before it, decompressed.
- A topic's line holds up another one for one such piece of work at a time.
- A batch that is not stored leaves nothing behind; one that is lost with the server was not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from semel.core.log.admission import AppendOrigin, inadmissible
from semel.core.log.config import LOG_APPEND_TIME, LogConfig
from semel.errors import CorruptRecordBatch, ErrorCode
from semel.record.batch import BatchHeader, decode_header, payload_of
from semel.record.records import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN, RecordRules
from semel.server.broker import Broker
from semel.server.storage.aside import aside
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition

if TYPE_CHECKING:
    from semel.record.invalid import InvalidRecords

_PIECE_BYTES: Final = 1024 * 1024
_SHOWN: Final = 3  # of the records that are named
RECORD_ERRORS_FROM: Final = 8  # Produce names records since then (KIP-467)


class Waiting:
    """A batch of one request, in memory of its own, that has its place in the line; then its outcome."""

    __slots__ = (
        "header",
        "incoming",
        "level",
        "outcome",
        "partition",
        "rules",
        "still_vouched_for",
        "target",
    )

    def __init__(
        self,
        partition: Partition,
        records: memoryview,
        header: BatchHeader,
        origin: AppendOrigin,
        still_vouched_for: Callable[[], AppendOutcome | None] | None,
        rules: RecordRules | None,
    ) -> None:
        config = partition.config
        compression = config.compression
        self.rules: Final = rules
        self.partition: Final = partition
        self.header: Final = header
        self.incoming = Incoming(memoryview(bytearray(records)), (header,), origin)
        self.still_vouched_for: Final = still_vouched_for
        self.target: Final = compression if compression is not header.compression else None
        self.level: Final = config.compression_level
        self.outcome: AppendOutcome | None = None

    @property
    def is_work(self) -> bool:
        """Whether something is to be done in the thread."""
        return self.rules is not None or self.target is not None


def must_wait(partition: Partition, header: BatchHeader) -> bool:
    """Whether the log wants the batch in another codec, or something of each of its records."""
    wanted = partition.config.compression
    return partition.config.judges_records or (wanted is not None and wanted is not header.compression)


def has_records_to_name(outcome: AppendOutcome, api_version: int) -> bool:
    """Whether it was refused for some of its records, which the line can name."""
    return outcome.error_code is ErrorCode.INVALID_TIMESTAMP and api_version >= RECORD_ERRORS_FROM


def join_line(
    broker: Broker,
    partition: Partition,
    records: memoryview,
    header: BatchHeader,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    still_vouched_for: Callable[[], AppendOutcome | None] | None = None,
) -> Waiting | AppendOutcome:
    """Give a batch its place in the line; or say why it cannot have one.

    ``still_vouched_for`` is asked once more when the batch is appended, for its transaction may have ended meanwhile
    (KIP-890): ``None``, or why it is refused.
    """
    config = partition.config
    refused = inadmissible(header, config, now_ms, origin)  # as it comes; as it is stored, later
    names_records = refused is not None and refused.error_code is ErrorCode.INVALID_TIMESTAMP
    if refused is not None and not names_records:
        return _refusal(partition, refused.error_code, refused.reason)
    limit_bytes = broker.settings.queued_max_request_bytes
    if broker.compressing_bytes and broker.compressing_bytes + len(records) > limit_bytes:
        reason = (
            f"not stored: too many batches wait to be compressed (queued.max.request.bytes is {limit_bytes})"
        )
        # Kafka says it of replicas; every client sends again then, librdkafka at no other code that is said of room.
        return _refusal(partition, ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    broker.compressing_bytes += len(records)
    rules = _rules(config, now_ms) if config.judges_records or names_records else None
    return Waiting(partition, records, header, origin, still_vouched_for, rules)


def _rules(config: LogConfig, now_ms: int) -> RecordRules:
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return RecordRules(config.is_compacted, TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)
    oldest_ms = now_ms - config.message_timestamp_before_max_ms
    newest_ms = now_ms + config.message_timestamp_after_max_ms
    return RecordRules(
        config.is_compacted, max(oldest_ms, TIMESTAMP_MS_MIN), min(newest_ms, TIMESTAMP_MS_MAX)
    )


async def append_in_line(broker: Broker, line: Sequence[Waiting], clock: Callable[[], int]) -> None:
    """Compress and append them in order, and give each its outcome."""
    done = 0
    try:
        while done < len(line):
            if not line[done].is_work:
                piece = line[done : done + 1]
            else:
                piece = line[done : done + await aside(_compress_some, line, done)]
            for partition, share in groupby(piece, attrgetter("partition")):
                _append(broker, partition, list(share), clock())
            _leave_line(broker, piece)
            done += len(piece)
    finally:
        _leave_line(broker, line[done:])  # none are left, but for a defect


def _leave_line(broker: Broker, gone: Sequence[Waiting]) -> None:
    for one in gone:
        broker.compressing_bytes -= one.header.size_bytes
        one.incoming = Incoming(memoryview(b""), ())  # the memory of it


def _compress_some(line: Sequence[Waiting], start: int) -> int:
    """Compress some of them, in another thread; how many."""
    done = work_bytes = 0
    for one in line[start:]:
        if work_bytes > _PIECE_BYTES:
            break
        work_bytes += _compress(one)
        done += 1
    return done


def _compress(one: Waiting) -> int:
    """How many bytes of records that were."""
    from semel.record.invalid import invalid_records  # numpy: in a server that looks into records
    from semel.record.recompression import recompress

    batch, header = one.incoming.batches, one.header
    payload = b""
    try:
        if one.is_work:
            payload = bytes(payload_of(batch, header))
        invalid = None if one.rules is None else invalid_records(payload, header, one.rules)
        if invalid is not None:
            one.outcome = _refusal_of_records(one.partition, header, invalid)
        elif one.target is not None:
            packed = recompress(payload, header, one.target, one.level)
            one.incoming = one.incoming._replace(batches=memoryview(packed), headers=(decode_header(packed),))
    except CorruptRecordBatch as error:
        one.outcome = _refusal(one.partition, ErrorCode.INVALID_RECORD, str(error))
    return max(len(payload), len(batch))


def _refusal_of_records(partition: Partition, header: BatchHeader, invalid: InvalidRecords) -> AppendOutcome:
    code = ErrorCode.INVALID_TIMESTAMP if invalid.has_wrong_timestamp else ErrorCode.INVALID_RECORD
    shown = "; ".join(f"{index}: {why}" for index, why in invalid.errors[:_SHOWN])
    more = ", ..." if invalid.how_many > _SHOWN else ""
    how_many = f"{invalid.how_many} of the batch's {header.record_count} records cannot be stored"
    reason = f"{how_many}, and so none was; {shown}{more}"
    return _refusal(partition, code, reason)._replace(record_errors=invalid.errors)


def _append(broker: Broker, partition: Partition, share: Sequence[Waiting], now_ms: int) -> None:
    if broker.storage.find(partition.name) is not partition:  # deleted meanwhile
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for one in share:
            one.outcome = AppendOutcome(
                code, error_message=f"there is no partition {partition.name} any more"
            )
    for one in share:
        if one.outcome is None and one.still_vouched_for is not None:
            one.outcome = one.still_vouched_for()
    sound = [one for one in share if one.outcome is None]
    outcomes = partition.append_all([one.incoming for one in sound], now_ms)
    for one, outcome in zip(sound, outcomes, strict=True):
        one.outcome = outcome


def _refusal(partition: Partition, code: ErrorCode, reason: str) -> AppendOutcome:
    return AppendOutcome(code, log_start_offset=partition.log_start_offset, error_message=reason)
