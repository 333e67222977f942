"""All that one partition knows of its producers.

Invariants:
- The state is a function of the batches below ``end_offset``: a snapshot with the tail replayed equals a
  replay of everything. Only :meth:`expire` and :meth:`forget` take from it.
- A leased id goes only once its lease is over; nothing is judged by it any more then.
- Any other id expires by the SERVER's time of its last append, which is no part of a snapshot: after a restart
  every id lives for the full span again. Kafka goes by the records' timestamps, and so forgets at once
  whoever loads old data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from semel.core.producer_state.entry import NO_TRANSACTION, ProducerEntry
from semel.core.producer_state.row import (
    ROW_BYTES,
    Row,
    decode_row,
    encode_row,
    id_of,
    put_batch,
    put_marker,
    txn_first_offset_of,
)
from semel.core.producer_state.rows import put_in_order, room_for
from semel.core.producer_state.slab import SlabBytes, SlabMap, count_rows, rows_in
from semel.core.producer_state.verdict import APPEND, Verdict, judge
from semel.record.batch import BatchHeader
from semel.types import LEASED_IDS_FROM, NO_PRODUCER_ID

_SWEPT_AT_ONCE: Final = 1024  # slots, between which other work goes on
_STEPS_OF_A_COPY: Final = 64


class OpenTransaction(NamedTuple):
    """A transaction that has begun on a partition, and not ended there."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class FrozenProducers:
    """What a partition knew at ``end_offset``; for another thread to write down."""

    __slots__ = ("end_offset", "slabs")

    def __init__(self, slabs: Sequence[Row], end_offset: int) -> None:
        self.slabs = slabs
        self.end_offset = end_offset

    def __len__(self) -> int:
        return count_rows(self.slabs)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return ((id_of(row), decode_row(row)) for row in rows_in(self.slabs))

    def in_order(self) -> memoryview:
        """All rows, one behind the other, by id. Takes long where there are many."""
        rows = room_for(len(self) * ROW_BYTES)
        put_in_order(self.slabs, rows)
        return rows


class ProducerState:
    """The map producer id -> entry of one partition, and the offset up to which it speaks."""

    __slots__ = ("_rows", "end_offset")

    def __init__(
        self, entries: Mapping[int, ProducerEntry] | None = None, *, end_offset: int = 0, now_ms: int = 0
    ) -> None:
        self._rows = SlabMap()
        for producer_id, entry in (entries or {}).items():
            self._rows.add(producer_id, now_ms)
            self._rows.put_back(producer_id, encode_row(producer_id, entry))
        self.end_offset = end_offset

    @classmethod
    def load(cls, rows: memoryview, *, end_offset: int, now_ms: int) -> ProducerState:
        """The state with the given rows, no two of the same id."""
        state = cls(end_offset=end_offset)
        state._rows = SlabMap.load(rows, now_ms)
        return state

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, producer_id: int) -> bool:
        return self._rows.find(producer_id) is not None

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return ((id_of(row), decode_row(row)) for row in self._rows)

    def get(self, producer_id: int) -> ProducerEntry | None:
        place = self._rows.find(producer_id)
        return None if place is None else decode_row(*place[:2])

    def freeze(self) -> FrozenProducers:
        """The state as it is now, for a snapshot. Quick, however many ids there are."""
        return FrozenProducers(self._rows.freeze(), self.end_offset)

    def append_next(self, header: BatchHeader, base_offset: int, now_ms: int) -> Row | None:
        """:meth:`judge` and :meth:`apply` in one, for a client's batch that plainly follows its producer's last one.

        Nearly every batch does. Gives what :meth:`apply` gives; or ``None``, and then nothing was done.
        """
        before = self._rows.append_next(header, base_offset, now_ms)
        if before is not None:
            self.end_offset = base_offset + header.last_offset_delta + 1
        return before

    def judge(self, header: BatchHeader) -> Verdict:
        """What to do with a batch."""
        producer_id = header.producer_id
        return APPEND if producer_id == NO_PRODUCER_ID else judge(self.get(producer_id), header)

    def apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> Row | None:
        """A data batch was appended at ``base_offset``; what the judge said is not asked again.

        Gives the producer's row as it was before, for :meth:`restore`.
        """
        last_offset_delta = header.last_offset_delta
        self.end_offset = base_offset + last_offset_delta + 1
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        slab, at, before = self._row_of(producer_id, now_ms)
        put_batch(
            slab,
            at,
            header.producer_epoch,
            header.base_sequence,
            base_offset,
            last_offset_delta,
            header.max_timestamp,
            is_transactional=header.is_transactional,
        )
        return before

    def apply_marker(
        self, header: BatchHeader, base_offset: int, coordinator_epoch: int, now_ms: int
    ) -> Row | None:
        """A control batch was appended at ``base_offset``; gives what :meth:`apply` gives."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        slab, at, before = self._row_of(producer_id, now_ms)
        put_marker(slab, at, header.producer_epoch, coordinator_epoch, header.max_timestamp)
        return before

    def _row_of(self, producer_id: int, now_ms: int) -> tuple[bytearray, int, Row | None]:
        """Where the row lies that an append writes, and what it was before if the id was known."""
        place = self._rows.touch(producer_id, now_ms)
        slab, at, _ = place or self._rows.add(producer_id, now_ms)
        return slab, at, slab[at : at + ROW_BYTES] if place else None

    def restore(self, producer_id: int, before: Row | None) -> None:
        """Undo an append whose write failed: put back what the call that noted it gave."""
        if before is None:
            self._rows.remove(producer_id)
        else:
            self._rows.put_back(producer_id, before)

    def open_transactions(self) -> list[OpenTransaction]:
        """Each one, by its first offset."""
        found = [
            OpenTransaction(
                producer_id, decode_row(*self._place_of(producer_id)).producer_epoch, first_offset
            )
            for producer_id, first_offset in self._rows.open_transactions()
        ]
        return sorted(found, key=attrgetter("first_offset"))

    def leased_ids(self) -> Iterator[int]:
        """Those of its ids that are leased."""
        return self._rows.leased_ids()

    @property
    def slab_bytes(self) -> SlabBytes:
        """The memory of its rows."""
        return self._rows.slab_bytes

    def forget(self, producer_id: int) -> int:
        """Forget an id, if it is known and in no transaction; how long that took, in steps of about one row."""
        place = self._rows.find(producer_id)
        if place is None or txn_first_offset_of(*place[:2]) != NO_TRANSACTION:
            return 1
        return _STEPS_OF_A_COPY if self._rows.remove(producer_id) else 1

    def _place_of(self, producer_id: int) -> tuple[Row, int]:
        place = self._rows.find(producer_id)
        assert place is not None, "an id that is not known"
        return place[:2]

    def expire(self, before_ms: int, leases_expired_below: int = LEASED_IDS_FROM) -> Iterator[int]:
        """Forget the leases that are over, and every other id whose last append is older than ``before_ms``.

        None whose transaction is open: somebody has to end it.

        In steps, between which anything may happen; each gives how many it forgot. From the last slot to the
        first: what takes the place of a forgotten row comes from the end, and was looked at already or is new.
        """
        end = len(self._rows)
        while end > 0:
            start = max(0, end - _SWEPT_AT_ONCE)
            yield self._rows.sweep(before_ms, leases_expired_below, start, end)
            end = start
