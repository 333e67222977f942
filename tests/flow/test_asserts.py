"""Asserts that say what they compared: the same verdicts, each side evaluated once, lines where they were."""

from __future__ import annotations

import traceback

import pytest

from semel.flow.asserts import FAIL_NAME, failed, rewritten


def run(text, **names):
    space = {FAIL_NAME: failed, **names}
    exec(compile(rewritten(text.encode(), "file.py"), "file.py", "exec"), space)
    return space


def message_of(text, **names):
    with pytest.raises(AssertionError) as raised:
        run(text, **names)
    return str(raised.value)


def test_both_sides_are_shown_and_evaluated_once_in_order():
    asked = []
    names = {"left": lambda: asked.append("left") or 1, "right": lambda: asked.append("right") or 2}
    assert message_of("assert left() == right()", **names) == "1\n    == 2"
    assert asked == ["left", "right"]
    assert message_of("assert left() > right(), 'as it was'", **names) == "as it was\n1\n    > 2"


@pytest.mark.parametrize(
    "text", ["1 == 1", "1 != 2", "1 < 2", "2 in [2]", "3 not in [2]", "None is None", "True"]
)
def test_what_holds_passes(text):
    run(f"assert {text}")


def test_lists_and_dicts_are_told_apart_line_by_line():
    rows = [{"word": "a", "n": 1}, {"word": "b", "n": 2}]
    told = message_of("assert rows == [{'word': 'a', 'n': 1}, {'word': 'b', 'n': 3}]", rows=rows)
    assert "-  {'word': 'b', 'n': 3}," in told
    assert "+  {'word': 'b', 'n': 2}," in told
    assert "   {'word': 'a', 'n': 1}," in told
    assert len(message_of("assert rows == []", rows=list(range(9999))).splitlines()) < 60


def test_a_message_is_made_only_where_the_assert_fails():
    run("assert 1 == 1, 1 / 0")


def test_other_asserts_stay_as_they_are_and_so_do_lines():
    assert message_of("assert False, 'no'") == "no"
    assert message_of("assert 1 < 2 > 3") == ""
    text = "def f():\n    x = 1\n    assert x == 2\n\nf()\n"
    with pytest.raises(AssertionError) as raised:
        run(text)
    lines = [
        each.lineno for each in traceback.extract_tb(raised.value.__traceback__) if each.filename == "file.py"
    ]
    assert lines == [5, 3]
