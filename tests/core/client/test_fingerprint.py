"""The same rows are told from others, and an input that lacks or adds some from a whole one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.fingerprint import (
    RECENT_POSITIONS_MAX,
    RECENT_ROWS_MAX,
    Again,
    Differs,
    Recent,
    first_row_number,
    from_position,
    row_digest,
)
from semel.core.client.saved import SavedRows
from semel.record.batch import Record

parts = st.none() | st.binary(max_size=3)
headers = st.lists(st.tuples(st.text(max_size=2), parts), max_size=2).map(tuple)
rows = st.builds(Record, st.just(0), st.just(0), parts, parts, headers)


def saved(positions: list[list[Record]], first: int = 0) -> tuple[SavedRows, ...]:
    recent = Recent(())
    for position, said in enumerate(positions, first):
        recent.open = None
        for row in said:
            (recent.open or recent.begin(position)).add("out", None, row)
    return recent.to_save()


def of(value: str) -> Record:
    return Record(0, 0, None, value.encode())


@given(rows, rows)
def test_rows_have_one_digest_if_they_say_the_same(one: Record, other: Record) -> None:
    assert (row_digest(*one[2:]) == row_digest(*other[2:])) == (one == other)


@given(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=5), st.data())
def test_what_comes_again_is_taken_if_nothing_about_it_changed(
    positions: list[list[Record]], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(positions) - 1))
    row = data.draw(st.integers(0, len(positions[position]) - 1))
    other = [list(said) for said in positions]
    other[position][row] = data.draw(rows)
    for came in (positions, other):
        again, differs = Again(saved(positions)), []
        for number, said in enumerate(came):
            assert again.at(number)
            differs += [again.add("out", None, item) for item in said]
        assert any(differs) == (came != positions)
        if came == positions:
            assert again.is_done and again.missing() is None and not again.at(len(positions))


def test_the_last_positions_are_kept_and_always_one() -> None:
    many = saved([[of(str(number))] for number in range(100)])
    assert [item.position for item in many] == list(range(100 - RECENT_POSITIONS_MAX, 100))
    long = saved([[of("a")], [of("b")] * RECENT_ROWS_MAX, [of("c")] * (RECENT_ROWS_MAX + 1)])
    assert [(item.position, item.rows) for item in long] == [(2, RECENT_ROWS_MAX + 1)]


def test_of_positions_that_are_no_row_numbers_the_last_one_is_kept() -> None:
    recent = Recent(())
    for position in ("a", "b", {"file": 1}):
        recent.open = None
        (recent.open or recent.begin(position)).add("out", None, of("x"))
    assert [item.position for item in recent.to_save()] == [{"file": 1}]
    assert first_row_number(recent.to_save()) is None


def test_what_an_earlier_run_saved_stays_in_front_of_new_rows() -> None:
    recent = Recent(saved([[of("a")], [of("b")]]))
    recent.open = None
    (recent.open or recent.begin(2)).add("out", None, of("c"))
    assert recent.to_save() == saved([[of("a")], [of("b")], [of("c")]])


def test_a_long_position_is_the_same_whatever_was_folded_when() -> None:
    said = [of(str(number) * 500) for number in range(300)]
    recent = Recent(())
    recent.to_save()
    for row in said:
        (recent.open or recent.begin(0)).add("out", None, row)
        recent.to_save()
    assert recent.to_save() == saved([said])


def test_an_input_may_begin_at_any_position_that_was_fingerprinted() -> None:
    recent = saved([[of("a")], [of("b")]], first=5)
    assert from_position(recent, 7) is None
    again = from_position(recent, 6)
    assert again is not None and again.at(6)
    assert again.add("out", None, of("b")) is None
    assert again.is_done
    tuples = Recent(())
    tuples.begin((1, 2)).add("out", None, of("a"))
    assert from_position(tuples.to_save(), [1, 2]) is not None  # as it comes out of a file


@pytest.mark.parametrize(
    ("hand", "why"),
    [
        pytest.param(
            lambda again: again.at(1) and again.add("out", None, of("b")), "row 0 .* did not come", id="gap"
        ),
        pytest.param(
            lambda again: again.at(0) and again.add("other", None, of("a")),
            "topic 'out', and comes for",
            id="topic",
        ),
        pytest.param(
            lambda again: again.at(0) and again.add("out", 1, of("a")),
            "is not the one that is stored",
            id="partition",
        ),
        pytest.param(
            lambda again: (
                again.at(0) and (again.add("out", None, of("a")), again.add("out", None, of("a")))[1]
            ),
            "row 0 .* did not come|row 1 .* did not come",
            id="too many",
        ),
        pytest.param(lambda again: again.missing(), "row 0 .* did not come", id="none"),
    ],
)
def test_what_differs_is_named(hand: Callable[[Again], Differs | None], why: str) -> None:
    import re

    differs = hand(Again(saved([[of("a")], [of("b")]])))
    assert isinstance(differs, Differs)
    assert re.search(why, differs.why)
