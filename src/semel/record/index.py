"""Where every field of many records lies, found for all records at once.

The same law as :func:`semel.record.records.decode_payload`, in numpy: only the walk from record to record
is a Python loop, since each one's place hangs on the one before (many parts are walked side by side); every
field after that is read for a whole block of records in one pass.

Invariants: as there. Every index into the payload is compared with the end of its own record before it is
used, so nothing is read outside of it. Memory: 8 bytes a record for the walk, and less than
``BLOCK_RECORDS_MAX * 512`` bytes for a block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from semel.errors import CorruptRecordBatch
from semel.record.records import RECORD_BYTES_MIN
from semel.record.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, read_varint

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BLOCK_RECORDS_MAX: Final = 32 * 1024  # the columns of one block stay in a core's cache
_HEADER_ROUNDS_MAX: Final = 16  # records with more headers than this are walked one by one
_HEADER_BYTES_MIN: Final = 2
_NULL: Final = -1
_LANE_RECORDS: Final = 64
_LANES_WALKED_TOGETHER_MIN: Final = 24  # below this a numpy step costs more than the records that it takes
_LANE_STEPS_MAX: Final = 16 * _LANE_RECORDS  # a lane that is longer is walked faster alone
_GUESS_BYTES_MAX: Final = 2048  # that are looked through for a lane's beginning
_GUESSES_MAX: Final = 64  # zeros in them, for each lane: who has more has other things than text
_GUESS_HOPS: Final = 4


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """The headers of a block, in the order of its records."""

    record: Int64s  # the record within the block that each header belongs to
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s  # -1 for null


@dataclass(frozen=True, slots=True)
class KeyFields:
    """What stands before a record's value: enough to tell which record of which key it is."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_length: Int64s  # -1: no key
    value_length: Int64s  # -1: a tombstone


@dataclass(frozen=True, slots=True)
class RecordFields:
    """One entry a record; starts are positions in the payload, a length of -1 is null."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s
    header_count: Int64s
    headers: HeaderFields


def walk(payload: bytes, start: int, end: int, record_count: int, positions: array[int]) -> None:
    """Append the position of each of the ``record_count`` records between ``start`` and ``end``."""
    append = positions.append
    position = start
    try:
        for _ in range(record_count):
            append(position)
            byte = payload[position]
            if byte < 0x80:
                length = byte >> 1
                negative = byte & 1
                position += 1
            elif (second := payload[position + 1]) < 0x80:
                length = (byte & 0x7F | second << 7) >> 1
                negative = byte & 1
                position += 2
            else:
                length, position = read_varint(payload, position, end)
                negative = length < 0
            position += length
            if negative or position > end:
                raise CorruptRecordBatch(f"record claims {length} bytes and passes the end of its batch")
    except IndexError:
        raise CorruptRecordBatch("records end before their count is reached") from None
    if position != end:
        raise CorruptRecordBatch(f"{end - position} bytes follow the last of {record_count} records")


def starts_of(payload: bytes, ends: Int64s, counts: Int64s) -> Int64s:
    """Where each record begins, of batches that end at ``ends`` and have ``counts`` records."""
    starts = np.concatenate(([0], ends[:-1]))
    if lane_count(counts) >= _LANES_WALKED_TOGETHER_MIN:
        found = walk_together(np.frombuffer(payload, np.uint8), starts, ends, counts)
        if found is not None:
            return found
    positions: array[int] = array("q")
    for start, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
        walk(payload, start, end, count, positions)
    return np.frombuffer(positions, np.int64)


def walk_together(payload: Bytes, starts: Int64s, ends: Int64s, counts: Int64s) -> Int64s | None:
    """The same for many batches at once, one record of each *lane* at a time; one array, batch after batch.

    Long batches are cut into lanes at places that look like a record's beginning. Whether they are one is proven by the
    walk itself: the first lane of a batch begins with its first record, and each has to end just where the next one
    begins. So a wrong guess costs time, and nothing else.

    ``None`` where anything is out of the ordinary: then :func:`walk` has the last word, and the error's.
    """
    here = np.unique(np.concatenate((starts[starts < ends], _guessed(payload, starts, ends, counts))))
    end = np.append(here[1:], ends[-1])
    most, last = int(counts.sum()), len(payload) - 1
    lane: Int64s = np.arange(len(here), dtype=np.int64)  # that are not at their end
    records = np.zeros(len(here), np.int64)  # of each lane
    found: list[tuple[Int64s, Int64s]] = []
    total = 0
    while len(here):
        if total + len(here) > most or len(found) == _LANE_STEPS_MAX:
            return None
        total += len(here)
        found.append((lane, here))
        byte = payload[here].astype(np.int64)
        more = byte >> 7
        second = payload[np.minimum(here + 1, last)].astype(np.int64)
        length = byte + (second - 1 << 7) * more  # without the bit that says that it goes on
        here = here + 1 + more
        more &= second >> 7
        if more.any():
            third = payload[np.minimum(here, last)].astype(np.int64)
            if (more & third >> 7).any():
                return None
            length += (third - 1 << 14) * more
            here += more
        if (length & 1).any():  # negative
            return None
        here += length >> 1
        is_over = here >= end
        if is_over.any():
            if (here[is_over] != end[is_over]).any():
                return None
            records[lane[is_over]] = len(found)
            here, end, lane = here[~is_over], end[~is_over], lane[~is_over]
    if total != most:
        return None
    place = np.cumsum(records) - records
    positions = np.empty(total, np.int64)
    for step, (lane, here) in enumerate(found):
        positions[place[lane] + step] = here
    bounds = np.searchsorted(positions, np.append(starts, ends[-1:]))
    return positions if np.array_equal(np.diff(bounds), counts) else None


def lane_count(counts: Int64s) -> int:
    """About how many lanes there are in batches of so many records."""
    return int(np.maximum(counts // _LANE_RECORDS, 1).sum())


def _guessed(payload: Bytes, starts: Int64s, ends: Int64s, counts: Int64s) -> Int64s:
    """Places within long batches from which several records follow on each other, to all appearance.

    A record has a byte of zeros, its attributes, behind its length. So zeros are looked for, a little behind each place
    where a lane should begin, and from what would be the record's beginning it must go on from record to record.
    """
    cuts = counts // _LANE_RECORDS
    none = np.empty(0, np.int64)
    if int(cuts.max(initial=0)) < 2:
        return none
    cuts = np.maximum(cuts, 1)
    owner = np.repeat(np.arange(len(counts)), cuts - 1)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(cuts - 1) - (cuts - 1), cuts - 1) + 1
    place = starts[owner] + (ends - starts)[owner] * number // cuts[owner]
    of_record = int(((ends - starts) // np.maximum(counts, 1)).max())
    width = min(2 * of_record + 16, _GUESS_BYTES_MAX, len(payload))
    place = np.minimum(place, len(payload) - width)
    windows = np.lib.stride_tricks.sliding_window_view(payload, width)[place]
    lane, column = np.nonzero(windows == 0)
    if len(lane) > _GUESSES_MAX * len(place):
        return none
    lane, zero = np.tile(lane, 2), place[lane] + column
    begin = np.concatenate((zero - 1, zero - 2))
    is_in = begin >= starts[owner[lane]]
    lane, begin = lane[is_in], begin[is_in]
    here, limit = begin, ends[owner[lane]]
    for _ in range(_GUESS_HOPS):
        byte = payload[here]
        second = payload[np.minimum(here + 1, len(payload) - 1)]
        is_long = byte >= 0x80
        length = np.where(is_long, byte.astype(np.int64) + ((second.astype(np.int64) - 1) << 7), byte)
        body = here + 1 + is_long
        goes_on = (length & 1 == 0) & (length >> 1 >= RECORD_BYTES_MIN - 1) & ~(is_long & (second >= 0x80))
        behind = body + (length >> 1)
        goes_on &= (behind < limit) & (payload[np.minimum(body, len(payload) - 1)] == 0)
        lane, begin, here, limit = lane[goes_on], begin[goes_on], behind[goes_on], limit[goes_on]
    order = np.lexsort((begin, lane))
    _, firsts = np.unique(lane[order], return_index=True)
    return begin[order][firsts]


def fields_of(
    payload: Bytes, starts: Int64s, ends: Int64s, *, headers_max: int | None = None
) -> RecordFields:
    """The fields of the records that :func:`walk` found at ``starts``, each ending at ``ends``.

    Records that have more than ``headers_max`` headers in all are refused before the first header is read.
    """
    timestamp_delta, offset_delta, position = _read_deltas(payload, starts, ends)
    key_start, key_length, position = _read_fields(payload, position, ends)
    value_start, value_length, position = _read_fields(payload, position, ends)
    header_count, position = read_varints(payload, position, ends)
    if headers_max is not None and header_count.sum() > headers_max:
        _refuse(f"records have more than the {headers_max} headers that are left to them")
    headers, position = _read_headers(payload, position, ends, header_count)
    if not np.array_equal(position, ends):
        _refuse("record has bytes after its last field")
    return RecordFields(
        timestamp_delta, offset_delta, key_start, key_length, value_start, value_length, header_count, headers
    )


def key_fields_of(payload: Bytes, starts: Int64s, ends: Int64s) -> KeyFields:
    """The same up to the value; nothing is said of what comes behind that."""
    timestamp_delta, offset_delta, position = _read_deltas(payload, starts, ends)
    key_start, key_length, position = _read_fields(payload, position, ends)
    _, value_length, _ = _read_fields(payload, position, ends)
    return KeyFields(timestamp_delta, offset_delta, key_start, key_length, value_length)


def key_blocks(payload: Bytes, bounds: Int64s) -> Iterator[KeyFields]:
    """The same of all records, block by block; ``bounds``: where each begins, and where the last one ends."""
    for first in range(0, len(bounds) - 1, BLOCK_RECORDS_MAX):
        block = bounds[first : first + BLOCK_RECORDS_MAX + 1]
        yield key_fields_of(payload, block[:-1], block[1:])


def _read_deltas(payload: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Of time and of offset, and the positions after them."""
    length, position = read_varints(payload, starts, ends)
    if length.min() < RECORD_BYTES_MIN - 1:
        _refuse(f"record claims {int(length.min())} bytes, {RECORD_BYTES_MIN - 1} is the least")
    position += 1  # attributes: no bit has a meaning yet
    timestamp_delta, position = read_varlongs(payload, position, ends)
    offset_delta, position = read_varints(payload, position, ends)
    return timestamp_delta, offset_delta, position


def read_varints(payload: Bytes, positions: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """The 32-bit number at each position, and the positions after them."""
    return _read_numbers(payload, positions, ends, VARINT_BYTES_MAX, last_byte_max=0x0F)


def read_varlongs(payload: Bytes, positions: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """The 64-bit number at each position, and the positions after them."""
    return _read_numbers(payload, positions, ends, VARLONG_BYTES_MAX, last_byte_max=0x01)


def _read_numbers(
    payload: Bytes, positions: Int64s, ends: Int64s, bytes_max: int, last_byte_max: int
) -> tuple[Int64s, Int64s]:
    if (positions >= ends).any():
        _refuse("varint runs past the end of its record")
    byte = payload[positions]
    after = positions + 1
    zigzag = byte.astype(np.uint64)
    longer = np.flatnonzero(byte >= 0x80)
    if len(longer):
        zigzag[longer] &= np.uint64(0x7F)
    for index in range(1, bytes_max):
        if not len(longer):
            break
        at = after[longer]
        if (at >= ends[longer]).any():
            _refuse("varint runs past the end of its record")
        byte = payload[at]
        if index == bytes_max - 1 and byte.max() > last_byte_max:
            _refuse(f"varint is longer than {bytes_max} bytes or exceeds its width")
        zigzag[longer] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * index)
        after[longer] = at + 1
        longer = longer[byte >= 0x80]
    sign = (zigzag & np.uint64(1)).view(np.int64)
    value = (zigzag >> np.uint64(1)).view(np.int64) ^ -sign
    return value, after


def _read_fields(payload: Bytes, positions: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    length, start = read_varints(payload, positions, ends)
    if len(length) and length.min() < _NULL:
        _refuse(f"field claims {int(length.min())} bytes")
    after = start + np.maximum(length, 0)
    if (after > ends).any():
        _refuse("field is longer than its record")
    return start, length, after


def _read_headers(
    payload: Bytes, position: Int64s, ends: Int64s, header_count: Int64s
) -> tuple[HeaderFields, Int64s]:
    """One round a header: the first headers of all records, then the second ones, and so on."""
    if ((header_count < 0) | (header_count * _HEADER_BYTES_MIN > ends - position)).any():
        _refuse("record claims headers that it cannot hold")
    count_max = int(header_count.max())
    if not count_max:
        none = np.empty(0, np.int64)
        return HeaderFields(none, none, none, none, none), position
    rounds: list[tuple[Int64s, ...]] = []
    for index in range(min(count_max, _HEADER_ROUNDS_MAX)):
        record = np.flatnonzero(header_count > index)
        rounds.append((record, *_read_header(payload, position, ends, record)))
    rounds.extend(_read_many_headers(payload, position, ends, header_count))
    columns = [np.concatenate(column) for column in zip(*rounds, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return HeaderFields(*(column[order] for column in columns)), position


def _read_header(payload: Bytes, position: Int64s, ends: Int64s, record: Int64s) -> tuple[Int64s, ...]:
    """The next header of each of these records; moves ``position``."""
    limit = ends[record]
    key_start, key_length, after = _read_fields(payload, position[record], limit)
    if key_length.min() < 0:
        _refuse("header has no key")
    value_start, value_length, after = _read_fields(payload, after, limit)
    position[record] = after
    return key_start, key_length, value_start, value_length


def _read_many_headers(
    payload: Bytes, position: Int64s, ends: Int64s, header_count: Int64s
) -> Iterator[tuple[Int64s, ...]]:
    """The headers after the sixteenth. A round for each would cost more than reading them singly."""
    for record in np.flatnonzero(header_count > _HEADER_ROUNDS_MAX).tolist():
        end = int(ends[record])
        base = int(position[record])
        rest = payload[base:end].tobytes()
        fields = array("q")
        at = 0
        for _ in range(int(header_count[record]) - _HEADER_ROUNDS_MAX):
            for null_allowed in (False, True):
                length, start = read_varint(rest, at, len(rest))
                at = start + max(length, 0)
                if length < (_NULL if null_allowed else 0) or at > len(rest):
                    _refuse("header is longer than its record or has no key")
                fields.extend((base + start, length))
        position[record] = base + at
        table = np.frombuffer(fields, np.int64).reshape(-1, 4)
        yield np.full(len(table), record, np.int64), table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _refuse(why: str) -> NoReturn:
    raise CorruptRecordBatch(why)
