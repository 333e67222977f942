"""Which records are named: as one would find them one by one, however the batch is made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.record.batch import Record, decode_header, encode_batch, payload_of
from semel.record.compression import Compression
from semel.record.invalid import RECORDS_NAMED_MAX, InvalidRecords, invalid_records
from semel.record.records import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN, RecordRules

KEYS = st.sampled_from([None, b"", b"a"])
TIMES = st.sampled_from([-1, 0, 5, 1_000, TIMESTAMP_MS_MAX]) | st.integers(-1, 2_000)
BOUNDS = st.sampled_from([TIMESTAMP_MS_MIN, -1, 0, 5, 1_000, TIMESTAMP_MS_MAX])


def found(
    records: list[Record], rules: RecordRules, codec: Compression = Compression.NONE
) -> InvalidRecords | None:
    batch = encode_batch(records, compression=codec)
    header = decode_header(batch)
    return invalid_records(bytes(payload_of(batch, header)), header, rules)


@given(st.lists(st.tuples(KEYS, TIMES), min_size=1, max_size=9), st.booleans(), BOUNDS, BOUNDS)
def test_it_names_what_one_finds_one_by_one(
    rows: list[tuple[bytes | None, int]], needs_key: bool, low: int, high: int
) -> None:
    records = [Record(0, timestamp_ms, key, b"v") for key, timestamp_ms in rows]
    result = found(records, RecordRules(needs_key, low, high))
    keyless = {n for n, (key, _) in enumerate(rows) if needs_key and key is None}
    mistimed = {
        n for n, (_, time_ms) in enumerate(rows) if time_ms != -1 and not low <= time_ms <= high
    } - keyless
    if result is None:
        assert not keyless | mistimed
    else:
        assert [one.batch_index for one in result.errors] == sorted(keyless | mistimed)
        assert result.has_wrong_timestamp == bool(mistimed)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_of_many_the_first_are_named_and_all_are_counted(codec: Compression) -> None:
    rules = RecordRules(True, TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)
    keyed = [Record(0, 1, b"k", b"v")] * 40_000
    assert found(keyed, rules, codec) is None
    result = found([*keyed, *[Record(0, 1, None, b"v")] * (RECORDS_NAMED_MAX + 5)], rules, codec)
    assert result is not None
    assert result.how_many == RECORDS_NAMED_MAX + 5
    assert [one.batch_index for one in result.errors] == list(range(40_000, 40_000 + RECORDS_NAMED_MAX))
