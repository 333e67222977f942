from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.deadlines import Deadlines


def test_the_earliest_is_next_and_each_is_due_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next_ms() is None
    deadlines.set("b", 5)
    deadlines.set("a", 3)
    assert deadlines.next_ms() == 3
    assert list(deadlines.due(5)) == ["a", "b"]
    assert deadlines.next_ms() is None


def test_one_that_is_put_off_or_brought_forward_is_due_at_its_last_time() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 3)
    deadlines.set("a", 9)
    assert list(deadlines.due(8)) == []
    deadlines.set("a", 2)
    assert list(deadlines.due(2)) == ["a"]
    assert list(deadlines.due(99)) == []


def test_what_is_due_may_set_and_cancel_others() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in "abc":
        deadlines.set(key, 1)
    told = []
    for key in deadlines.due(2):
        told.append(key)
        deadlines.cancel("b")
        if key == "a":
            deadlines.set("d", 2)
    assert told == ["a", "c", "d"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30) | st.none(), st.integers(0, 3))))
def test_like_a_plain_dict(steps: list[tuple[int, int | None, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    plain: dict[int, int] = {}
    now_ms = 0
    for key, due_ms, goes_on_ms in steps:
        if due_ms is None:
            deadlines.cancel(key)
            plain.pop(key, None)
        else:
            deadlines.set(key, due_ms)
            plain[key] = due_ms
        now_ms += goes_on_ms
        assert deadlines.next_ms() == min(plain.values(), default=None)
        due = {key for key, at_ms in plain.items() if at_ms <= now_ms}
        assert set(deadlines.due(now_ms)) == due
        for key in due:
            del plain[key]
