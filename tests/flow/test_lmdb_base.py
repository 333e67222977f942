"""Any bytes are a key, in their order, whatever LMDB takes for one."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.core.flow.changelog import Meta
from semel.flow.lmdb_base import PLAIN_BYTES_MAX, LmdbBase, apply, apply_columns, clear, load

LONG = PLAIN_BYTES_MAX
A = b"a" * (LONG - 1)
STEMS = st.sampled_from([A, A + b"a", A + b"b", A + b"\xff", b"\xff" * LONG, b"\0" * LONG])
KEYS = st.one_of(
    st.just(b""),
    st.binary(max_size=2),
    st.builds(
        bytes.__add__, STEMS, st.sampled_from([b"", b"\0", b"\xff", b"\xff\0", b"\xff\xff", b"b", b"c" * 600])
    ),
)
PIECES = st.lists(
    st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=3))), max_size=8), max_size=5
)

PLAIN_PIECES = st.lists(
    st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.binary(max_size=3)), max_size=8), max_size=5
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[lmdb.Environment, object]]:
    folder = tmp_path_factory.mktemp("lmdb")
    with lmdb.open(str(folder), max_dbs=2, sync=False) as env:
        yield env, env.open_db(b"states")


def check(base: LmdbBase, expected: dict[bytes, bytes], asked: list[bytes]) -> None:
    assert list(base.scan(b"", None)) == sorted(expected.items())
    assert base.get_many(asked) == [expected.get(key) for key in asked]
    assert [base.get(key) for key in asked] == [expected.get(key) for key in asked]
    for first in asked[:4]:
        for end in [None, *asked[:4]]:
            assert list(base.scan(first, end)) == sorted(
                (key, value) for key, value in expected.items() if key >= first and (end is None or key < end)
            )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    PIECES | PLAIN_PIECES,
    st.lists(KEYS, max_size=6),
    st.dictionaries(KEYS, st.binary(max_size=3)),
    st.booleans(),
)
def test_it_is_a_sorted_map_of_any_bytes(database, pieces, asked, loaded, in_columns):
    env, states = database
    expected: dict[bytes, bytes] = {}
    with env.begin(write=True) as txn:
        txn.put(b"other", b"beside the state")
        clear(txn, states)
        for piece in pieces:
            keys, values = [key for key, _ in piece], [value for _, value in piece]
            if in_columns:
                apply_columns(txn, states, pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
            else:
                apply(txn, states, keys, values)
            for key, value in piece:
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        check(LmdbBase(txn, states, Meta()), expected, [*asked, *expected])
        clear(txn, states)
        check(LmdbBase(txn, states, Meta()), {}, asked)
        rising = sorted(loaded.items())
        for start in range(0, len(rising), 3):
            part = rising[start : start + 3]
            load(txn, states, [key for key, _ in part], [value for _, value in part])
        check(LmdbBase(txn, states, Meta()), loaded, [*asked, *loaded])


def test_others_changes_are_not_seen(database: tuple[lmdb.Environment, object]) -> None:
    env, states = database
    with env.begin(write=True) as txn:
        clear(txn, states)
        apply(txn, states, [b"", b"key", b"k" * 600], [b"1", b"1", b"1"])
    base = LmdbBase(env.begin(), states, Meta(key_count=3))
    with env.begin(write=True) as txn:
        clear(txn, states)
    assert dict(base.scan(b"", None)) == {b"": b"1", b"key": b"1", b"k" * 600: b"1"}
    assert len(base) == 3
    base.close()
