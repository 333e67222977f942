"""The records inside of a batch (Kafka's ``DefaultRecord``), one by one.

This is the reference: :mod:`semel.record.index` finds the same fields for a whole batch at once, and a
property test holds the two together. Invariants of :func:`decode_payload`: every varint ends within its
record and every record within the payload; each record is used up to its last byte and the payload up to its
last record; ``record_count * RECORD_BYTES_MIN <= len(payload)``, which bounds the list before it is made;
offset deltas rise strictly and stay within the header's ``last_offset_delta``.

What Java's clients read is read here, as they do: a header key that is no UTF-8 has U+FFFD where its bytes are none
(``RecordHeader.key``), and times wrap in 64 bits (``DefaultRecord.readFrom``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from semel.errors import CorruptRecordBatch
from semel.record.varint import append_varint, read_varint, read_varlong

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN: Final = 7  # length, attributes, two deltas, key length, value length, header count
_HEADER_BYTES_MIN: Final = 2  # key length, value length

TIMESTAMP_MS_MIN: Final = -(2**63)
TIMESTAMP_MS_MAX: Final = 2**63 - 1

_INT64_SPAN: Final = 2**64


class Record(NamedTuple):
    """One record of a log. A tuple, because it is made by the million."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def wrapped_ms(timestamp_ms: int) -> int:
    """In 64 bits, as Java adds: a delta may carry a base timestamp past them, and Kafka's clients read on."""
    return (timestamp_ms + _INT64_SPAN // 2) % _INT64_SPAN - _INT64_SPAN // 2


class RecordRules(NamedTuple):
    """What a log asks of each record; a time is within the two bounds, or there is none."""

    needs_key: bool
    timestamp_ms_min: int
    timestamp_ms_max: int


class RecordLike(Protocol):
    """What :func:`encode_payload` needs of a record: anything with these attributes."""

    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def encode_payload(records: Iterable[RecordLike], base_timestamp: int) -> bytearray:
    """The records with offset deltas 0, 1, 2 …, uncompressed."""
    payload = bytearray()
    body = bytearray()
    for offset_delta, record in enumerate(records):
        body.clear()
        body.append(0)  # record attributes: no bit has a meaning yet
        append_varint(body, wrapped_ms(record.timestamp_ms - base_timestamp))
        append_varint(body, offset_delta)
        _append_bytes(body, record.key)
        _append_bytes(body, record.value)
        append_varint(body, len(record.headers))
        for name, value in record.headers:
            _append_bytes(body, name.encode())
            _append_bytes(body, value)
        append_varint(payload, len(body))
        payload += body
    return payload


def _append_bytes(out: bytearray, field: bytes | None) -> None:
    if field is None:
        out.append(1)  # zigzag of -1
    else:
        append_varint(out, len(field))
        out += field


def decode_payload(
    payload: bytes,
    record_count: int,
    *,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> list[Record]:
    """All records of an uncompressed payload; ``append_time_ms`` replaces their own timestamps."""
    check_record_count(record_count, len(payload))
    records: list[Record] = []
    position = 0
    payload_end = len(payload)
    previous_delta = -1
    for _ in range(record_count):
        length, position = read_varint(payload, position, payload_end)
        end = position + length
        if length < RECORD_BYTES_MIN - 1 or end > payload_end:
            raise CorruptRecordBatch(
                f"record {len(records)} claims {length} bytes, {payload_end - position} are left"
            )
        timestamp_delta, position = read_varlong(payload, position + 1, end)
        offset_delta, position = read_varint(payload, position, end)
        if not previous_delta < offset_delta <= last_offset_delta:
            raise CorruptRecordBatch(
                f"record {len(records)} has offset delta {offset_delta}, "
                f"expected more than {previous_delta} and at most {last_offset_delta}"
            )
        previous_delta = offset_delta
        key, position = _read_bytes(payload, position, end)
        value, position = _read_bytes(payload, position, end)
        header_count, position = read_varint(payload, position, end)
        headers: Headers = ()
        if header_count:
            headers, position = _read_headers(payload, position, end, header_count)
        if position != end:
            raise CorruptRecordBatch(f"record {len(records)} has {end - position} bytes after its last field")
        timestamp_ms = (
            wrapped_ms(base_timestamp + timestamp_delta) if append_time_ms is None else append_time_ms
        )
        records.append(Record(base_offset + offset_delta, timestamp_ms, key, value, headers))
    if position != payload_end:
        raise CorruptRecordBatch(
            f"{payload_end - position} bytes follow the last of {record_count} records in the batch"
        )
    return records


def check_record_count(record_count: int, payload_bytes: int) -> None:
    """Refuse a count that the payload cannot hold, before anything of that size is allocated."""
    if record_count * RECORD_BYTES_MIN > payload_bytes:
        raise CorruptRecordBatch(
            f"batch claims {record_count} records, its {payload_bytes} bytes hold at most "
            f"{payload_bytes // RECORD_BYTES_MIN}"
        )


def _read_bytes(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position, end)
    if length == -1:
        return None, position
    stop = position + length
    if length < 0 or stop > end:
        raise CorruptRecordBatch(
            f"field at byte {position} of the records claims {length} bytes, its record has {end - position}"
        )
    return payload[position:stop], stop


def _read_headers(payload: bytes, position: int, end: int, header_count: int) -> tuple[Headers, int]:
    if header_count < 0 or header_count * _HEADER_BYTES_MIN > end - position:
        raise CorruptRecordBatch(
            f"record claims {header_count} headers, {end - position} bytes are left of it"
        )
    headers = []
    for _ in range(header_count):
        name, position = _read_bytes(payload, position, end)
        if name is None:
            raise CorruptRecordBatch(f"header before byte {position} of the records has no key")
        value, position = _read_bytes(payload, position, end)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position
