"""What is left of a batch: its offsets and sequences, and the records as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.record.batch import (
    Compression,
    Record,
    assign_offsets,
    decode_header,
    decode_records,
    encode_batch,
    payload_of,
)
from semel.record.filtering import emptied, filtered, hole
from semel.record.keys import keyed_records

HORIZON_MS = 5_000_000_000


ODD_TIMES_MS = [-(2**63), -(2**62), 2**62, 2**63 - 1]  # times that no calendar has


@given(
    rows=st.lists(
        st.tuples(
            st.booleans(), st.integers(0, 2**41) | st.sampled_from(ODD_TIMES_MS), st.binary(max_size=300)
        ),
        min_size=1,
        max_size=30,
    ).filter(lambda rows: any(stays for stays, *_ in rows)),
    compression=st.sampled_from([*Compression]),
    horizon_ms=st.sampled_from([None, HORIZON_MS]),
    append_time=st.booleans(),
    keeps_max=st.booleans(),
)
def test_the_records_that_stay_are_what_they_were(
    rows, compression: Compression, horizon_ms: int | None, append_time: bool, keeps_max: bool
) -> None:
    records = [Record(n, time_ms, b"k", value, (("h", value),)) for n, (_, time_ms, value) in enumerate(rows)]
    batch = encode_batch(records, producer_id=7, producer_epoch=2, base_sequence=9, compression=compression)
    assign_offsets(batch, 100, 4, append_time_ms=77 if append_time else None)
    before = decode_records(batch)
    header = decode_header(batch)
    keyed = keyed_records([(header, payload_of(batch, header))])
    stays = np.array([stays for stays, *_ in rows], np.bool_)
    left = filtered(
        header,
        keyed.payload,
        keyed.bounds,
        keyed.timestamp_delta,
        stays,
        delete_horizon_ms=horizon_ms,
        keeps_producer=True,
        keeps_max_timestamp=keeps_max,
    )
    kept = [one for one, (stays, *_) in zip(before, rows, strict=True) if stays]
    assert decode_records(left) == kept
    after = decode_header(left)
    assert after.base_offset == 100
    assert after.last_offset == header.last_offset
    assert (after.base_sequence, after.last_sequence) == (9, header.last_sequence)
    assert (after.producer_id, after.producer_epoch, after.partition_leader_epoch) == (7, 2, 4)
    assert after.compression is compression
    assert after.has_delete_horizon is (horizon_ms is not None)
    newest = header.max_timestamp if keeps_max else max(one.timestamp_ms for one in kept)
    assert after.max_timestamp == (77 if append_time else newest)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_an_empty_batch_tells_who_wrote_what(compression: Compression) -> None:
    rows = [Record(n, 50 + n, b"k", b"v") for n in range(3)]
    batch = encode_batch(
        rows, base_offset=40, producer_id=7, producer_epoch=2, base_sequence=9, compression=compression
    )
    header = decode_header(emptied(decode_header(batch)))
    assert decode_records(emptied(decode_header(batch))) == []
    assert (header.base_offset, header.last_offset, header.last_sequence) == (40, 42, 11)
    assert (header.record_count, header.size_bytes, header.max_timestamp) == (0, 61, 52)
    assert (header.producer_id, header.producer_epoch) == (7, 2)


def test_a_hole_is_nobodys() -> None:
    header = decode_header(hole(5, 9, 3))
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (5, 9, 3)
    assert (header.record_count, header.producer_id, header.base_sequence) == (0, -1, -1)
    assert decode_records(hole(5, 9, 3)) == []
