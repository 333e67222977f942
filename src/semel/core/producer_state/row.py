"""What a partition remembers of one producer id, as 112 bytes.

::

      0 producer_id        int64
      8 txn_first_offset   int64   of its transaction that is open, or -1
     16 last_timestamp_ms  int64
     24 coordinator_epoch  int32
     28 producer_epoch     int16
     30 batches            uint8   in the window, 0 to 5
     31                            zero
     32 the window         5 spans, the NEWEST first, zeros behind the last:
        base_offset        int64
        base_sequence      int32
        last_offset_delta  int32   the batch's last sequence and last offset follow from it

All of it big-endian, so that rows sort as bytes in the order of their ids. The newest span stands at a fixed
place: one look at the first 48 bytes (``MARK``) tells whether a batch is the next one.

Invariant: equal entries have equal rows.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from semel.core.producer_state.entry import NO_TRANSACTION, WINDOW_BATCHES_MAX, BatchSpan, ProducerEntry
from semel.sequence import advance, last_of
from semel.types import NO_SEQUENCE

Row: TypeAlias = bytes | bytearray

HEAD: Final = struct.Struct(">qqqihBxqii")  # up to the end of the newest span
SPAN: Final = struct.Struct(">qii")
WINDOW_AT: Final = HEAD.size - SPAN.size
ROW_BYTES: Final = WINDOW_AT + WINDOW_BATCHES_MAX * SPAN.size

# What tells the next batch: id, open transaction, coordinator epoch, epoch, batches, and of the newest span
# sequence and last delta.
MARK: Final = struct.Struct(">qq8xihB9xii")

_ID: Final = struct.Struct(">q")
_OLDER_BYTES: Final = (WINDOW_BATCHES_MAX - 1) * SPAN.size
CHANGING: Final = struct.Struct(f">qihBxqii{_OLDER_BYTES}s")  # of a row what each batch changes
TXN_FIRST_OFFSET_AT: Final = _ID.size
CHANGING_AT: Final = TXN_FIRST_OFFSET_AT + _ID.size
_EPOCHS: Final = struct.Struct(">ihB")
_EPOCHS_AT: Final = 24
_BEFORE_WINDOW: Final = struct.Struct(">qqqihBx")
OLDEST_AT: Final = WINDOW_AT + _OLDER_BYTES
_NO_SPANS: Final = bytes(_OLDER_BYTES)


def new_row(producer_id: int) -> bytes:
    """The row of an id of which nothing is known yet."""
    return encode_row(producer_id, ProducerEntry())


def put_batch(
    slab: bytearray,
    at: int,
    producer_epoch: int,
    base_sequence: int,
    base_offset: int,
    last_offset_delta: int,
    timestamp_ms: int,
    *,
    is_transactional: bool = False,
) -> None:
    """A batch was appended: it is the newest of its epoch's, unless it has no sequence.

    A transactional one begins a transaction where none is open.
    """
    if is_transactional and _ID.unpack_from(slab, at + TXN_FIRST_OFFSET_AT)[0] == NO_TRANSACTION:
        _ID.pack_into(slab, at + TXN_FIRST_OFFSET_AT, base_offset)
    if base_sequence == NO_SEQUENCE:  # the server's own
        known = decode_row(slab, at)
        window = known.window if known.producer_epoch == producer_epoch else ()
        entry = known._replace(producer_epoch=producer_epoch, last_timestamp_ms=timestamp_ms, window=window)
        slab[at : at + ROW_BYTES] = encode_row(id_of(slab, at), entry)
        return
    coordinator_epoch, epoch_before, batches = _EPOCHS.unpack_from(slab, at + _EPOCHS_AT)
    older: Row = _NO_SPANS
    if epoch_before == producer_epoch:
        older = slab[at + WINDOW_AT : at + OLDEST_AT]
        if batches < WINDOW_BATCHES_MAX:
            batches += 1
    else:
        batches = 1
    CHANGING.pack_into(
        slab,
        at + CHANGING_AT,
        timestamp_ms,
        coordinator_epoch,
        producer_epoch,
        batches,
        base_offset,
        base_sequence,
        last_offset_delta,
        older,
    )


def put_marker(
    slab: bytearray, at: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> None:
    """A marker was appended: no transaction is open any more.

    A raised epoch starts anew at sequence 0 and shuts the older ones out.
    """
    row = slab[at : at + ROW_BYTES]
    known = decode_row(row)
    window = known.window if known.producer_epoch == producer_epoch else ()
    entry = ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
    slab[at : at + ROW_BYTES] = encode_row(id_of(row), entry)


def id_of(slab: Row | memoryview, at: int = 0) -> int:
    (producer_id,) = _ID.unpack_from(slab, at)
    return int(producer_id)


def txn_first_offset_of(slab: Row, at: int = 0) -> int:
    """Of the row's transaction that is open; ``NO_TRANSACTION``."""
    (first_offset,) = _ID.unpack_from(slab, at + TXN_FIRST_OFFSET_AT)
    return int(first_offset)


def decode_row(slab: Row | memoryview, at: int = 0) -> ProducerEntry:
    """The entry in the open."""
    _, txn_first_offset, timestamp_ms, coordinator_epoch, producer_epoch, batches, _, _, _ = HEAD.unpack_from(
        slab, at
    )
    window = []
    for n in reversed(range(batches)):
        base_offset, base_sequence, delta = SPAN.unpack_from(slab, at + WINDOW_AT + n * SPAN.size)
        last_sequence = last_of(base_sequence, delta + 1)
        window.append(BatchSpan(base_sequence, last_sequence, base_offset, base_offset + delta))
    return ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, tuple(window), txn_first_offset)


def encode_row(producer_id: int, entry: ProducerEntry) -> bytes:
    """The row of an entry, whose spans have as many sequences as offsets."""
    row = _BEFORE_WINDOW.pack(
        producer_id,
        entry.current_txn_first_offset,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.producer_epoch,
        len(entry.window),
    )
    for span in reversed(entry.window):
        delta = span.last_offset - span.base_offset
        assert span.last_sequence == advance(span.base_sequence, delta), "a span with a hole"
        row += SPAN.pack(span.base_offset, span.base_sequence, delta)
    return row.ljust(ROW_BYTES, b"\0")
