"""A state is a function of the entries alone, and a restore gives the one that was decided."""

from __future__ import annotations

from semel.core.flow.changelog import joined
from semel.core.flow.state import MemoryBase, State


def test_a_small_state_rides_in_the_decision() -> None:
    state = State(MemoryBase(), None, inline_bytes_max=1000)
    state.of(b"\0\1").put(b"user", b"3")
    assert not list(state.end_entry(0))
    committed = state.committed()
    assert committed.inline is not None
    assert dict(MemoryBase.decoded(committed.inline).scan(b"", None)) == {b"\0\1user": b"3"}


def test_a_larger_one_goes_to_the_changelog() -> None:
    state = State(MemoryBase(), None, inline_bytes_max=10)
    state.put(b"user", b"3")
    rows = joined(state.end_entry(0))
    base = MemoryBase.restored([rows], 1, state.committed())
    assert isinstance(base, MemoryBase)
    assert base.get(b"user") == b"3"
