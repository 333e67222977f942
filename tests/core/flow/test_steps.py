"""Steps without state: each row is answered for itself, under its key, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.ready import Count
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.core.flow.steps import Filter, FlatMap, KeyBy, Map, OnInputs
from semel.errors import StepFailed

ROWS = "user string, n bigint"
OUT = parse_schema("word string, n bigint")


def task(*steps: Any, tables: tuple[int, ...] = ()) -> Task:
    return Task(Chain(steps, frozenset(tables)))


def rows(*given: tuple[str | None, int | None], **more: Any) -> Any:
    return raw_piece(ROWS, [{"user": user, "n": n} for user, n in given], key="user", **more)


def doubled(row: Any) -> dict[str, Any]:
    return {"word": row.user * 2, "n": row.n * 2}


def doubled_table(table: pa.Table) -> pa.Table:
    return pa.table({"word": pc.binary_repeat(table["user"], 2), "n": pc.multiply(table["n"], 2)})


def is_odd(row: Any) -> bool:
    return bool(row.n % 2)


def is_odd_table(table: pa.Table) -> pa.ChunkedArray:
    return pc.equal(pc.bit_wise_and(table["n"], 1), 1)


def letters(row: Any) -> Any:
    return [{"word": letter, "n": row.n} for letter in row.user]


def letters_table(table: pa.Table) -> tuple[pa.Table, list[int]]:
    words, of = [], []
    for number, user in enumerate(table["user"].to_pylist()):
        words += list(user)
        of += [number] * len(user)
    return pa.table({"word": words, "n": table["n"].take(pa.array(of, pa.int64()))}), of


def test_map_makes_one_row_of_each_under_its_key():
    mapped = task(Map.of(doubled, OUT))
    assert mapped.entry(rows(("a", 1), ("b", 2))) == [{"word": "aa", "n": 2}, {"word": "bb", "n": 4}]
    assert mapped.keys == [b"a", b"b"]
    assert mapped.values == [b'{"word":"aa","n":2}', b'{"word":"bb","n":4}']


def test_filter_passes_rows_on_to_the_byte():
    value = b'{ "n": 3, "user": "a", "more": [1] }'
    kept = task(Filter.of(is_odd))
    kept.entry(raw_piece(ROWS, [value, {"user": "b", "n": 2}], keys=["a", "b"]))
    assert kept.values == [value] and kept.keys == [b"a"]


def test_flat_map_spreads_key_and_origin():
    chain = Chain((FlatMap.of(letters, OUT), Filter.of(lambda row: row.word != "y"))).start()
    from semel.core.flow.pieces import Entry

    (piece,) = chain.process([rows(("xyz", 1), ("", 2), ("yx", 3), first_offset=7)], Entry())
    assert [row.word for row in piece.as_rows()] == ["x", "z", "x"]
    assert piece.keys.to_pylist() == [b"xyz", b"xyz", b"yx"]
    assert piece.origin is not None and piece.origin.indices is not None
    assert piece.origin.offsets.tolist() == [7, 7, 9]
    assert piece.origin.indices.tolist() == [0, 2, 1]


def test_rows_without_a_schema_are_bytes():
    upper = task(Map.of(lambda value: value.upper()))
    upper.entry(raw_piece(None, [b"ab", b"c"], keys=[None, "k"]))
    assert upper.values == [b"AB", b"C"]
    split = task(FlatMap.of(lambda line: [{"word": word} for word in line.decode().split()], OUT))
    split.entry(raw_piece(None, [b"a b", b"c"]))
    assert [row["word"] for row in split.rows] == ["a", "b", "c"]


def test_key_by_sets_the_key_and_a_row_with_a_null_in_it_is_bad():
    keyed = task(KeyBy(("n",)), Filter.of(lambda row: True))
    keyed.entry(rows(("a", 1), ("b", None)))
    assert keyed.keys == [b"1"]
    assert [side[:3] for side in keyed.side] == [("bad", None, b'{"n":null,"user":"b"}')]
    as_columns = task(Filter(lambda table: [True], "f", "", True), KeyBy(("user", "n")))
    as_columns.entry(rows(("a", 1)))
    assert as_columns.keys == [b'["a",1]']


def test_a_row_that_cannot_be_written_stops_the_flow_at_the_row():
    schema = parse_schema("x double")
    with pytest.raises(StepFailed, match=r"'write' failed at topic 't', partition 0, offset 1.*NaN"):
        task(Map.of(lambda row: {"x": float("nan") if row.n else 1.0}, schema)).entry(
            rows(("a", 0), ("b", 1))
        )
    with pytest.raises(StepFailed, match=r"'write' failed at .*offset 1"):
        task(Map.of(lambda value: {"x": object()} if value == b"b" else value)).entry(
            raw_piece(None, [b"a", b"b"])
        )


def test_a_value_that_cannot_be_read_is_bad_and_the_others_go_on():
    mapped = task(Filter.of(lambda row: True))
    mapped.entry(raw_piece(ROWS, [b"nonsense", {"user": "a", "n": 1}, b'{"n": "x"}'], keys=["1", "2", "3"]))
    assert mapped.keys == [b"2"]
    assert [(output, key, value) for output, key, value, _ in mapped.side] == [
        ("bad", b"1", b"nonsense"),
        ("bad", b"3", b'{"n": "x"}'),
    ]


def test_what_a_map_must_not_return():
    with pytest.raises(StepFailed, match=r"offset 1.*returned None"):
        task(Map.of(lambda row: row if row.n else None)).entry(rows(("a", 1), ("b", 0)))
    with pytest.raises(StepFailed, match=r"offset 0.*does not fit its schema"):
        task(Map.of(lambda row: {"word": 7}, OUT)).entry(rows(("a", 1)))


@pytest.mark.parametrize(
    "step, why",
    [
        (Map(lambda t: t.slice(1), None, "m", "", True), "given 2 rows and returned 1"),
        (Map(lambda t: t.to_pylist(), None, "m", "", True), "not a pyarrow Table"),
        (Map(lambda t: t.drop_columns("n"), None, "m", "", True), "its schema is"),
        (Map(lambda t: 1 // 0, None, "m", "", True), "ZeroDivisionError"),
        (Filter(lambda t: t["n"], "f", "", True), "not a boolean for each row"),
        (Filter(lambda t: [True], "f", "", True), "given 2 rows and returned"),
        (FlatMap(lambda t: t, None, "fm", "", True), "returned no \\(table, of\\)"),
        (FlatMap(lambda t: (t, [1, 0]), None, "fm", "", True), "ascending"),
        (FlatMap(lambda t: (t, [0, 2]), None, "fm", "", True), "ascending"),
    ],
)
def test_what_a_function_of_tables_must_not_return(step, why):
    with pytest.raises(StepFailed, match=why):
        task(step).entry(rows(("a", 1), ("b", 2)))


def test_a_step_on_some_inputs_leaves_the_others_alone_and_the_order_as_it_is():
    chain = task(OnInputs(Map.of(doubled, OUT), (1,)))
    chain.entry(rows(("a", 1)), rows(("b", 1), input=1), rows(("c", 1)))
    assert [row.get("word", row.get("user")) for row in chain.rows] == ["a", "bb", "c"]
    with pytest.raises(ValueError, match="has state"):
        OnInputs(Count((Field("user", Kind.STRING),)), (0,))


def test_a_table_s_tombstones_pass_by_the_steps_on_its_rows():
    chain = task(Filter.of(is_odd), Map.of(doubled, OUT), tables=(0,))
    chain.entry(
        raw_piece(ROWS, [{"user": "a", "n": 1}, None, {"user": "b", "n": 2}, None], keys=["a", "b", "b", "c"])
    )
    assert chain.keys == [b"a", b"b", b"c"]
    assert chain.values == [b'{"word":"aa","n":2}', None, None]
    assert not chain.side


def test_a_plan_is_the_same_text_each_time_and_tells_code_apart():
    def text(version: str) -> str:
        return Chain((Map.of(doubled, OUT, version=version), KeyBy(("word",)))).plan_text()

    assert text("1") == text("1") != text("2")
    assert "word string" in text("1") and Chain((KeyBy(("word",)),)).state_text() == ""


def test_a_step_without_state_before_it_leaves_a_fold_s_state_where_it_is():
    count = Count((Field("user", Kind.STRING),))
    before, after = task(count), task(Filter.of(is_odd), count)
    before.entry(rows(("a", 1)))
    after.state = before.state
    assert after.entry(rows(("a", 1))) == [{"user": "a", "count": 2}]
    assert before.chain.state_text() == after.chain.state_text() != ""


ENTRY = st.lists(st.tuples(st.text("xyz", max_size=3), st.integers(-9, 9)), max_size=8)


@given(ENTRY, st.sets(st.integers(1, 7)))
def test_rows_and_tables_and_any_cut_give_the_same(entry, ends):
    by_row = task(Map.of(doubled, OUT), Filter.of(is_odd_or_two), FlatMap.of(spell, OUT))
    by_table = task(Map.of(doubled_table, OUT), Filter.of(is_odd_or_two_table), FlatMap.of(spell_table, OUT))
    by_row.entry(rows(*entry))
    by_table.entry(*(rows(*part) for part in cut(entry, sorted(ends))))
    assert by_row.values == by_table.values and by_row.keys == by_table.keys


def is_odd_or_two(row: Any) -> bool:
    return row.n == 2 or bool(row.n % 4)


def is_odd_or_two_table(table: pa.Table) -> Any:
    n = table["n"].to_numpy()
    return (n == 2) | (n % 4 != 0)


def spell(row: Any) -> Any:
    return ({"word": letter, "n": row.n} for letter in row.word)


def spell_table(table: pa.Table) -> Any:
    made, of = letters_table(table.rename_columns(["user", "n"]))
    return made, of
