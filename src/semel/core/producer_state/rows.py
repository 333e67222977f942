"""Many rows at once: in order, and checked.

Each of these is done row by row where there are a few, and else with numpy, which would cost a server
that knows few producers its memory and the time to load it. A property test holds the two to the same answers.

The event loop runs beside it: numpy and the CRC let go of the interpreter while they work, and whatever does not
is done in pieces. (So no ``bytearray`` of the whole size either, which is zeroed in one go.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import crc32c

from semel.core.producer_state.entry import NO_TRANSACTION, WINDOW_BATCHES_MAX, ProducerEntry
from semel.core.producer_state.row import (
    CHANGING_AT,
    HEAD,
    ROW_BYTES,
    SPAN,
    TXN_FIRST_OFFSET_AT,
    WINDOW_AT,
    Row,
    decode_row,
    id_of,
)
from semel.core.producer_state.slab import rows_in
from semel.core.producer_state.slot_index import FEW_ROWS, PLACE_BYTES, SLAB_ROWS

FEW_BYTES: Final = FEW_ROWS * ROW_BYTES
OLD_ROW_BYTES: Final = ROW_BYTES - (CHANGING_AT - TXN_FIRST_OFFSET_AT)
_PIECE_BYTES: Final = 4096 * ROW_BYTES
_SPANS: Final = [("base_offset", ">i8"), ("base_sequence", ">i4"), ("last_offset_delta", ">i4")]
_ROWS: Final = [
    ("producer_id", ">i8"),
    ("txn_first_offset", ">i8"),
    ("last_timestamp_ms", ">i8"),
    ("coordinator_epoch", ">i4"),
    ("producer_epoch", ">i2"),
    ("batches", "u1"),
    ("zero", "u1"),
    ("window", _SPANS, WINDOW_BATCHES_MAX),
]


def room_for(size_bytes: int) -> memoryview:
    """Memory to write into, with anything in it."""
    if size_bytes <= FEW_BYTES:
        return memoryview(bytearray(size_bytes))
    import numpy as np

    return np.empty(size_bytes, np.uint8).data


def checksum(data: memoryview) -> int:
    """CRC-32C."""
    crc = 0
    for piece in pieces(data):
        crc = crc32c.crc32c(piece, crc)
    return crc


def pieces(rows: memoryview, piece_bytes: int = _PIECE_BYTES) -> Iterator[memoryview]:
    """The same in parts of whole rows, each small enough to be handled while others wait."""
    return (rows[at : at + piece_bytes] for at in range(0, len(rows), piece_bytes))


def entries_in(rows: memoryview) -> Iterator[tuple[int, ProducerEntry]]:
    """What the rows say."""
    return ((id_of(rows, at), decode_row(rows, at)) for at in range(0, len(rows), ROW_BYTES))


def table_of(rows: Row | memoryview) -> Any:
    """The rows as a numpy array with named fields."""
    import numpy as np

    return np.frombuffer(rows, _row_type())


def _rows_of(slab: Row) -> Any:
    """The rows in a slab, without what stands between them."""
    import numpy as np

    in_place = np.dtype({"names": ["row"], "formats": [_row_type()], "offsets": [0], "itemsize": PLACE_BYTES})
    return np.frombuffer(slab, in_place)["row"]


@cache
def _row_type() -> Any:
    import numpy as np

    return np.dtype(_ROWS)


def widened(rows: memoryview) -> memoryview:
    """Rows of before there were transactions, none of which was in one."""
    count = len(rows) // OLD_ROW_BYTES
    wide = room_for(count * ROW_BYTES)
    id_bytes = TXN_FIRST_OFFSET_AT
    if count <= FEW_ROWS:
        none = NO_TRANSACTION.to_bytes(CHANGING_AT - id_bytes, signed=True)
        for n in range(count):
            row = rows[n * OLD_ROW_BYTES : (n + 1) * OLD_ROW_BYTES]
            wide[n * ROW_BYTES : (n + 1) * ROW_BYTES] = bytes(row[:id_bytes]) + none + row[id_bytes:]
        return wide
    import numpy as np

    old = np.frombuffer(rows, np.uint8).reshape(count, OLD_ROW_BYTES)
    new = np.frombuffer(wide, np.uint8).reshape(count, ROW_BYTES)
    new[:, :id_bytes] = old[:, :id_bytes]
    new[:, CHANGING_AT:] = old[:, id_bytes:]
    table_of(wide)["txn_first_offset"] = NO_TRANSACTION
    return wide


def put_in_order(slabs: Sequence[Row], into: memoryview) -> None:
    """Write the rows of ``slabs`` into ``into``, in the order of their ids."""
    if len(into) <= FEW_BYTES:
        into[:] = b"".join(sorted(rows_in(slabs)))
        return
    import numpy as np

    ordered = np.frombuffer(into, f"V{ROW_BYTES}")
    slots = [slice(n * SLAB_ROWS, (n + 1) * SLAB_ROWS) for n in range(len(slabs))]
    ids = np.empty(len(ordered), np.int64)
    for its_slots, slab in zip(slots, slabs, strict=True):
        ids[its_slots] = _rows_of(slab)["producer_id"]
    place = np.empty(len(ids), np.int64)
    place[np.argsort(ids)] = np.arange(len(ids))
    for its_slots, slab in zip(slots, slabs, strict=True):  # right to their places: no second copy is made
        ordered[place[its_slots]] = _rows_of(slab).view(ordered.dtype)


def are_canonical(rows: memoryview) -> bool:
    """Whether these are rows that an append or a marker can have made, in the order of their ids."""
    if len(rows) <= FEW_BYTES:
        return _are_canonical_few(rows)
    highest = -1
    for piece in pieces(rows):
        found = _highest_id(piece, highest)
        if found is None:
            return False
        highest = found
    return True


def _are_canonical_few(rows: memoryview) -> bool:
    highest = -1
    for at in range(0, len(rows), ROW_BYTES):
        producer_id, txn_first_offset, _, _, _, batches, *_ = HEAD.unpack_from(rows, at)
        spans_end, end = at + WINDOW_AT + batches * SPAN.size, at + ROW_BYTES
        if producer_id <= highest or batches > WINDOW_BATCHES_MAX or rows[at + WINDOW_AT - 1]:
            return False
        if any(rows[spans_end:end]) or txn_first_offset < NO_TRANSACTION:
            return False
        if any(min(span) < 0 for span in SPAN.iter_unpack(rows[at + WINDOW_AT : spans_end])):
            return False
        highest = producer_id
    return True


def _highest_id(rows: memoryview, above: int) -> int | None:
    """The last of the ids, all of them ``above`` and rising; ``None`` when something is wrong."""
    import numpy as np

    table = table_of(rows)
    ids, batches, window = table["producer_id"].astype(np.int64), table["batches"], table["window"]
    is_filled = np.arange(WINDOW_BATCHES_MAX) < batches[:, None]
    good = (
        ids[0] > above
        and (ids[1:] > ids[:-1]).all()
        and (batches <= WINDOW_BATCHES_MAX).all()
        and not table["zero"].any()
        and (table["txn_first_offset"] >= NO_TRANSACTION).all()
        and all(
            (values >= 0).all() and not values[~is_filled].any()
            for values in (window[name] for name, _ in _SPANS)
        )
    )
    return int(ids[-1]) if good else None
