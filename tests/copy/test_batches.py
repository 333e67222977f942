"""Which batches of a source go on as they are, and what becomes of the others."""

from __future__ import annotations

from functools import partial

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from semel.copy.batches import Ready, choose_clean, choose_where, ready_batches
from semel.copy.reading import Part
from semel.core.copy.clean import Cleaner
from semel.core.copy.journal import Clean, Mark
from semel.core.flow.lineage import Lineage
from semel.errors import ConfigError
from semel.record.batch import (
    DELETE_HORIZON_BIT,
    Record,
    TimestampType,
    assemble_batch,
    assign_offsets,
    decode_header,
    decode_records,
    encode_batch,
)
from semel.record.compression import Compression
from semel.record.records import encode_payload
from semel.record.where import compile_where
from semel.types import TopicPartition

TP = TopicPartition("t", 0)
ROWS = [
    Record(0, 1_000, b"k0", b"v0", ()),
    Record(1, 1_005, None, b"v1", (("h", b"x"), ("h", None))),
    Record(2, 990, b"k2", None, ()),
    Record(3, 1_010, b"", b"", ()),
]


def batch_at(offset, records=ROWS, **choices):
    batch = encode_batch(
        records, base_offset=offset, producer_id=9, producer_epoch=1, base_sequence=5, **choices
    )
    return memoryview(batch)


def compacted_at(offset, kept):
    """Of four offsets those rows that are left, as a cleaner leaves them."""
    base_ms = ROWS[0].timestamp_ms
    up_to = [bytes(encode_payload(ROWS[:count], base_ms)) for count in range(len(ROWS) + 1)]
    batch = assemble_batch(
        b"".join(up_to[number + 1][len(up_to[number]) :] for number in kept),
        record_count=len(kept),
        last_offset_delta=len(ROWS) - 1,
        base_timestamp=base_ms,
        max_timestamp=max(ROWS[number].timestamp_ms for number in kept),
        base_offset=offset,
    )
    return memoryview(batch)


def rows_of(ready):
    """(offset at the source, the row but for its offset)."""
    found = []
    for each in ready:
        offsets = [offset for start, end in each.spans for offset in range(start, end)]
        records = decode_records(each.batch)
        assert len(offsets) == len(records) == each.rows
        found += [(offset, record[1:]) for offset, record in zip(offsets, records, strict=True)]
    return found


def read(batch, from_offset=0, where=None):
    choose = None if where is None else partial(choose_where, compile_where(where))
    return ready_batches(TP, batch, decode_header(batch), from_offset, choose)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_plain_batch_is_not_taken_apart(compression):
    batch = batch_at(40, compression=compression)
    (ready,) = read(batch, 40)
    assert ready.batch is batch and ready.spans == ((40, 44),) and ready.newest_ms == 1_010


@given(from_offset=st.integers(38, 46), compression=st.sampled_from(list(Compression)))
def test_rows_in_front_of_the_place_are_left_out(from_offset, compression):
    ready = read(batch_at(40, compression=compression), from_offset)
    assert rows_of(ready) == [(40 + n, row[1:]) for n, row in enumerate(ROWS) if 40 + n >= from_offset]
    assert all(decode_header(each.batch).compression is compression for each in ready)


@given(kept=st.sets(st.integers(0, 3), min_size=1).map(sorted), from_offset=st.integers(40, 44))
def test_a_compacted_batch_becomes_one_without_gaps(kept, from_offset):
    ready = read(compacted_at(40, kept), from_offset)
    assert rows_of(ready) == [(40 + n, ROWS[n][1:]) for n in kept if 40 + n >= from_offset]
    assert all(decode_header(each.batch).is_dense for each in ready)


def test_the_time_that_a_log_set_becomes_the_rows_own():
    batch = bytearray(batch_at(0))
    assign_offsets(batch, 40, 0, append_time_ms=7_777)
    ready = read(memoryview(batch), 40)
    assert [row[0] for _, row in rows_of(ready)] == [7_777] * 4
    assert decode_header(ready[0].batch).timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize("time_ms", [2**62, -(2**62), 2**63 - 1, -1])
def test_rows_of_any_time_are_taken_out_of_their_batch(time_ms):
    rows = [row._replace(timestamp_ms=time) for row, time in zip(ROWS, [0, time_ms, 5, 7], strict=True)]
    (ready,) = ready_batches(TP, batch_at(100, rows), decode_header(batch_at(100, rows)), 101)
    assert [row.timestamp_ms for row in decode_records(ready.batch)] == [time_ms, 5, 7]


@pytest.mark.parametrize("time_ms", [2**62, -(2**62)])
def test_rows_of_any_time_are_cleaned(time_ms):
    lineages = [Lineage("clicks", 0, number).header() for number in (4, 4, 5, 6)]
    rows = [
        row._replace(timestamp_ms=time_ms, headers=(each,)) for row, each in zip(ROWS, lineages, strict=True)
    ]
    assert choose_clean(Cleaner(Clean()), TP, batch_at(100, rows), 100) == [100, 102, 103]


def test_markers_and_what_is_done_are_nothing():
    assert read(batch_at(40), 44) == []
    assert read(batch_at(40, ROWS[:1], control=True), 40) == []


def test_a_delete_horizon_is_no_timestamp():
    """Its base timestamp is when tombstones may go, and the rows' times count from it all the same (KIP-534)."""

    batch = bytearray(batch_at(40))
    batch[22] |= DELETE_HORIZON_BIT
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    (ready,) = read(memoryview(batch), 40)
    assert ready.batch is not batch and not decode_header(ready.batch).has_delete_horizon
    assert rows_of([ready]) == [(40 + n, row[1:]) for n, row in enumerate(ROWS)]


def test_a_batch_of_which_all_rows_hold_is_not_taken_apart():
    batch = batch_at(40, compression=Compression.LZ4)
    (ready,) = read(batch, 40, "offset >= 40")
    assert ready.batch is batch and ready.spans == ((40, 44),)


def test_a_batch_of_which_none_hold_is_nothing():
    assert read(batch_at(40), 40, "value = 'other'") == []


@given(
    kept=st.sets(st.integers(0, 3), min_size=1).map(sorted),
    wanted=st.sets(st.integers(0, 3)),
    from_offset=st.integers(40, 44),
    compression=st.sampled_from(list(Compression)),
)
def test_of_others_the_rows_that_hold_are_taken(kept, wanted, from_offset, compression):
    """Also where a cleaner was there before."""
    where = f"offset - 40 IN ({', '.join(map(str, wanted))})"
    batch = compacted_at(40, kept) if len(kept) < 4 else batch_at(40, compression=compression)
    ready = read(batch, from_offset, where)
    left = [n for n in kept if n in wanted and 40 + n >= from_offset]
    assert rows_of(ready) == [(40 + n, ROWS[n][1:]) for n in left]


def test_a_row_that_cannot_be_judged_is_told_by_its_place():
    with pytest.raises(ConfigError, match=r"t-0 offset 40: --where.*nothing is lost.*json_valid"):
        read(batch_at(40), 40, "value ->> 'a' = 1")
    assert read(batch_at(40), 40, "json_valid(value) AND value ->> 'a' = 1") == []
    assert read(batch_at(40), 44, "value ->> 'a' = 1") == []  # it is in front of the place


def test_a_part_is_cut_where_it_has_more_spans_than_a_record_of_the_journal():
    spans = [((0, 1), (2, 3)), ((4, 5),), ((6, 7), (8, 9), (10, 11)), ((12, 13),)]
    part = Part(tuple(Ready(memoryview(b""), each, 0) for each in spans), 20, Mark(19, 5), 3)
    pieces = part.pieces(3)
    assert [[each.spans for each in piece.batches] for piece in pieces] == [spans[:2], spans[2:3], spans[3:]]
    assert [(piece.end, piece.mark) for piece in pieces] == [(5, None), (11, None), (20, Mark(19, 5))]
    assert Part((), 20, None, 3).pieces(3) == [Part((), 20, None, 3)]
