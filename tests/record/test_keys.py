"""Keys as hashes: the same for the same bytes wherever they lie, and others for others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record.batch import Record, assemble_batch, decode_header, encode_batch, payload_of
from semel.record.keys import KeyHash, keyed_records

HASH = KeyHash(b"s" * 32)


def hashes_of(keys: list[bytes], hash_: KeyHash = HASH) -> list[tuple[int, int]]:
    payload = b"#".join([b"", *keys]) + b"\xff" * 64
    lengths = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(lengths + 1) - lengths
    found = hash_.of(payload, starts, lengths)
    return list(zip(found.high.tolist(), found.low.tolist(), strict=True))


@given(
    st.lists(
        st.one_of(st.binary(max_size=70), st.sampled_from([b"", b"\0", b"\0\0", b"a", b"a\0"])), min_size=1
    )
)
def test_equal_keys_have_equal_hashes_and_others_have_not(keys: list[bytes]) -> None:
    found = dict(zip(keys, hashes_of(keys), strict=True))
    assert len(set(found.values())) == len(found)
    assert hashes_of(keys[::-1]) == [found[key] for key in keys[::-1]]


def test_another_secret_gives_other_hashes() -> None:
    keys = [b"a", b"k" * 100]
    assert not set(hashes_of(keys)) & set(hashes_of(keys, KeyHash(b"t" * 32)))


def test_records_at_offsets_that_cannot_be_are_refused() -> None:
    payload = bytes(payload_of(batch := encode_batch([Record(0, 1, b"k", b"v")] * 3), decode_header(batch)))
    short = decode_header(assemble_batch(payload[:10] * 2, record_count=2, last_offset_delta=1))
    with pytest.raises(CorruptRecordBatch):
        keyed_records([(short, payload[:10] * 2)])
