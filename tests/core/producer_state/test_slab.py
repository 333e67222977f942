"""The map of rows against a plain dict, whatever is done to them and whatever snapshots are held meanwhile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.producer_state.entry import ProducerEntry as Entry
from semel.core.producer_state.row import ROW_BYTES, Row, decode_row, encode_row, id_of, put_batch
from semel.core.producer_state.slab import SLAB_BYTES, SlabMap, rows_in
from semel.core.producer_state.slot_index import CELLS_MAX, PLACE_BYTES, SLAB_ROWS, Place, SlotIndex
from semel.record.batch import BatchHeader

LEASED = 1 << 62
firsts = st.sampled_from([0, 3, 200, 2000, LEASED, LEASED + 100])
counts = st.sampled_from([1, 2, 70, 700, 3 * CELLS_MAX // 4])
steps = st.one_of(
    st.tuples(st.just("append"), firsts, counts),
    st.tuples(st.just("append"), firsts, counts),
    st.tuples(st.just("undo"), firsts, counts),
    st.tuples(st.just("remove"), firsts, counts),
    st.tuples(st.just("expire"), firsts, counts),
    st.tuples(st.just("freeze"), firsts, counts),
)


def put(rows: SlabMap, producer_id: int, now_ms: int) -> Place:
    """Where an append writes."""
    return rows.touch(producer_id, now_ms) or rows.add(producer_id, now_ms)


class Beside:
    """The map, a dict that should hold the same, and what was frozen with what it held then."""

    def __init__(self) -> None:
        self.rows = SlabMap()
        self.known: dict[int, bytes] = {}
        self.appended_at: dict[int, int] = {}
        self.frozen: list[tuple[tuple[Row, ...], dict[int, bytes]]] = []
        self.now_ms = 0

    def append(self, producer_id: int) -> None:
        """The next batch of an id, the quick way if it is known."""
        self.now_ms += 1
        known = self.known.get(producer_id)
        base_sequence = 0 if known is None else decode_row(known).last_sequence + 1
        header = BatchHeader(0, 100, -1, 2, 0, 0, 0, 0, 0, producer_id, 0, base_sequence, 1)
        before = self.rows.append_next(header, self.now_ms, self.now_ms)
        assert before == known
        if before is None:
            slab, at, _ = put(self.rows, producer_id, self.now_ms)
            put_batch(slab, at, 0, base_sequence, self.now_ms, 0, 0)
        expected = bytearray(known or encode_row(producer_id, Entry()))
        put_batch(expected, 0, 0, base_sequence, self.now_ms, 0, 0)
        self.known[producer_id] = bytes(expected)
        self.appended_at[producer_id] = self.now_ms

    def undo(self, producer_id: int) -> None:
        """An append, taken back."""
        place = self.rows.find(producer_id)
        before = None if place is None else place[0][place[1] : place[1] + ROW_BYTES]
        known, appended_at = self.known.get(producer_id), self.appended_at
        self.append(producer_id)
        if before is None:
            self.remove(producer_id)
        else:
            assert before == known
            self.rows.put_back(producer_id, before)
            self.known[producer_id] = bytes(before)
        assert (producer_id in appended_at) == (known is not None)

    def remove(self, producer_id: int) -> None:
        self.rows.remove(producer_id)
        self.known.pop(producer_id, None)
        self.appended_at.pop(producer_id, None)

    def expire(self, before_ms: int, expired_below: int) -> None:
        """Leased ids go by their numbers, all others by their last append."""
        old = {
            one
            for one, at_ms in self.appended_at.items()
            if (one < expired_below if one >= LEASED else at_ms < before_ms)
        }
        swept = 0
        for end in range(len(self.rows), 0, -100):
            swept += self.rows.sweep(before_ms, expired_below, max(0, end - 100), end)
        assert swept == len(old)
        for producer_id in old:
            del self.known[producer_id], self.appended_at[producer_id]

    def freeze(self) -> None:
        self.frozen.append((self.rows.freeze(), dict(self.known)))

    def check(self) -> None:
        assert len(self.rows) == len(self.known)
        assert {id_of(row): bytes(row) for row in self.rows} == self.known
        assert set(self.rows.leased_ids()) == {one for one in self.known if one >= LEASED}
        for producer_id, row in self.known.items():
            place = self.rows.find(producer_id)
            assert place is not None
            slab, at, _ = place
            assert slab[at : at + ROW_BYTES] == row
        for stranger in (-1, 2**61, 2**63 - 1):
            assert self.rows.find(stranger) is None
        for slabs, known in self.frozen:
            assert {id_of(row): bytes(row) for row in rows_in(slabs)} == known


@settings(max_examples=settings().max_examples * 3 // 5)
@given(st.lists(steps, max_size=14))
def test_the_map_does_what_a_dict_does(script: list[tuple[str, int, int]]) -> None:
    both = Beside()
    for what, first, count in script:
        if what == "freeze":
            both.freeze()
        elif what == "expire":
            both.expire(both.now_ms - count, LEASED + first % 300)
        else:
            for producer_id in range(first, first + count):
                getattr(both, what)(producer_id)
        both.frozen = both.frozen[-3:]
    both.check()


def test_a_write_copies_a_slab_once_for_a_snapshot() -> None:
    rows = SlabMap()
    for producer_id in range(2 * SLAB_ROWS):
        put(rows, producer_id, 0)
    frozen = rows.freeze()
    first, _, _ = put(rows, 0, 1)
    assert first is not frozen[0]
    assert put(rows, 1, 1)[0] is first
    assert rows.freeze()[1] is frozen[1], "nobody wrote into it"


def test_memory_follows_the_number_of_ids_down() -> None:
    rows = SlabMap()
    for producer_id in range(5 * SLAB_ROWS):
        put(rows, producer_id, producer_id)
    assert rows.sweep(4 * SLAB_ROWS, LEASED, 0, len(rows)) == 4 * SLAB_ROWS
    assert [len(slab) for slab in rows.freeze()] == [SLAB_BYTES]


def test_an_index_filled_at_once_is_one_that_grew() -> None:
    for count in (0, 1, 256, 257, 700, 5000, 20_000):
        ids = [LEASED + 17 * n for n in range(count)]
        no_time = bytes(PLACE_BYTES - ROW_BYTES)
        data = b"".join(encode_row(producer_id, Entry()) + no_time for producer_id in ids)
        slabs = [bytearray(data[at : at + SLAB_BYTES]) for at in range(0, len(data), SLAB_BYTES)]
        filled = SlotIndex(slabs)
        filled.fill(count)
        for slot, place in enumerate(map(filled.find, ids)):
            assert place is not None
            slab, at, its_slot = place
            assert (slab is slabs[slot // SLAB_ROWS], at, its_slot) == (
                True,
                slot % SLAB_ROWS * PLACE_BYTES,
                slot,
            )
        assert filled.find(LEASED + 1) is None


def test_an_index_is_swept_of_what_was_removed() -> None:
    rows = SlabMap()
    for producer_id in range(5 * CELLS_MAX):
        put(rows, producer_id, 0)
        rows.remove(producer_id - 10)
    assert sorted(map(id_of, rows)) == list(range(5 * CELLS_MAX - 10, 5 * CELLS_MAX))
