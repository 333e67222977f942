"""What names rows, of whole columns, is what names each row by itself."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.columns import RowUnreadable, texts_of
from semel.audit.identity import IdentityRule, IdentityUnreadable, KeyFrom

MaybeRow = tuple[bytes | None, bytes | None]
maybe_bytes = st.none() | st.binary(max_size=12) | st.just(b"\x00null")

odd_json = st.sampled_from(
    [
        b'{"a":1,"a":2,"b":3}',
        b'{"a":NaN,"b":{"c":1}}',
        b'{"\\u0061":"x","b":{"c":null}}',
        b'\xef\xbb\xbf{"a":1,"b":2}',
        b'{"a":"\xff","b":1}',
        b'{"a":1,"b":"\x01"}',
        b'{"a":1,"b":2} x',
        b'{"a":-0,"b":007}',
        b'{"a":1e400,"b":{"c":1.50}}',
        b'{"a":"\\ud800","b":1}',
        b'{"a":{"c":1},"b":{"a":1},"b":{"c":[1.0,"\xff"]}}',
        b'{"a":1,"b":2,"d":%b}' % (b"[" * 200 + b"]" * 200),
        b"[1]",
        b"",
    ]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
documents = st.fixed_dictionaries(
    {},
    optional={
        "a": leaves,
        "b": leaves | st.fixed_dictionaries({"c": leaves}) | st.lists(leaves),
        "d": leaves,
    },
)
json_values = documents.flatmap(
    lambda document: st.booleans().map(
        lambda is_ascii: json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "replace")
    )
)
rules = st.sampled_from(
    [IdentityRule(), IdentityRule(KeyFrom.KEY), IdentityRule(KeyFrom.VALUE)]
    + [IdentityRule.of(fields, None) for fields in ("a", "b", "b.c", "a,b.c", "b,b.c", "a,a", "d,a", 'a,q"')]
    + [IdentityRule.of(field, None).held_against(IdentityRule(KeyFrom.KEY)) for field in ("a", "b.c")]
)


@given(rules, st.lists(st.tuples(maybe_bytes, maybe_bytes | json_values | odd_json), max_size=4))
def test_columns_have_the_texts_of_their_rows(
    rule: IdentityRule, rows: list[tuple[bytes | None, bytes | None]]
) -> None:
    keys, values = (pa.array([row[side] for row in rows], pa.binary()) for side in (0, 1))
    one = rule.compile()
    expected: list[bytes | None] = []
    for number, row in enumerate(rows):
        try:
            expected.append(one(*row))
        except IdentityUnreadable as error:
            with pytest.raises(RowUnreadable) as caught:
                texts_of(rule)(keys, values)
            assert (caught.value.row, str(caught.value)) == (number, str(error))
            return
    assert texts_of(rule)(keys, values).to_pylist() == expected
