"""A stage partition in miniature: entries that change a state, cut into micro-batches in any way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import strategies as st

from semel.core.flow.changelog import ChangelogRows, joined
from semel.core.flow.state import Base, CommittedState, MemoryBase, State

Change = tuple[bytes, bytes | None]
Entry = tuple[Change, ...]

KEYS = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"a\0", b"\xff", b"\xff\xff"]),
    st.binary(max_size=3),
    st.binary(max_size=40),
)
VALUES = st.one_of(st.none(), st.just(b""), st.binary(max_size=4), st.binary(max_size=60))
FEW_KEYS = st.sampled_from(
    [b"", b"a", b"\xff"]
)  # so that changes outgrow them, and further snapshots are due
ENTRIES = st.one_of(
    st.lists(st.lists(st.tuples(keys, VALUES), max_size=6).map(tuple), max_size=14)
    for keys in (KEYS, FEW_KEYS)
)


def cuts_of(count: int) -> st.SearchStrategy[list[int]]:
    """Ends of micro-batches of ``count`` entries, the last one included."""
    return st.sets(st.integers(1, max(count, 1))).map(lambda ends: sorted({*ends, count} - {0}))


def model(entries: Sequence[Entry]) -> dict[bytes, bytes]:
    """The state after ``entries``."""
    rows: dict[bytes, bytes] = {}
    for entry in entries:
        for key, value in entry:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


@dataclass
class Stage:
    """What the stage has written and decided; its changelog's offsets are those of its rows."""

    inline_bytes_max: int = 150
    snapshot_changes_min: int = 3
    log: list[ChangelogRows] = field(default_factory=list)
    decided_end: int = 0
    decided: CommittedState | None = None
    changelog_end: int = 0  # decided
    decisions: dict[int, tuple[CommittedState | None, int]] = field(default_factory=lambda: {0: (None, 0)})

    def attempt(self, base: Base, entries: Sequence[Entry]) -> tuple[State, list[ChangelogRows]]:
        """An attempt at the entries behind the decided end."""
        state = State(
            base,
            self.decided,
            inline_bytes_max=self.inline_bytes_max,
            changelog_end=self.changelog_end,
            snapshot_changes_min=self.snapshot_changes_min,
        )
        written = []
        for offset, entry in enumerate(entries, self.decided_end):
            for key, value in entry:
                if value is None:
                    state.delete(key)
                else:
                    state.put(key, value)
            written += list(state.end_entry(offset))
        return state, written

    def decide(self, state: State, written: list[ChangelogRows], entry_count: int) -> None:
        """The attempt is decided, and all that it has written stands in the log."""
        self.log += written
        self.changelog_end = sum(map(len, self.log))
        self.decided, self.decided_end = state.committed(), self.decided_end + entry_count
        self.decisions[self.decided_end] = (self.decided, self.changelog_end)

    def run(self, entries: Sequence[Entry], ends: Sequence[int]) -> Stage:
        """All of it, in micro-batches that end at ``ends``, each with its state from the log."""
        for start, end in pairwise([0, *ends]):
            self.decide(*self.attempt(self.base(), entries[start:end]), end - start)
        return self

    def base(self) -> MemoryBase:
        """The decided state, as a fresh machine finds it."""
        return self.base_at(self.decided_end)

    def base_at(self, end: int) -> MemoryBase:
        """As of any decision."""
        decided, changelog_end = self.decisions[end]
        if decided is None or decided.inline is not None:
            return MemoryBase.decoded(None if decided is None else decided.inline)
        messages = self.messages(decided.changelog_from, changelog_end)
        base = MemoryBase.restored(messages, end, decided)
        assert isinstance(base, MemoryBase), base
        return base

    def messages(self, from_offset: int, end_offset: int, rows_max: int = 1000) -> Iterator[ChangelogRows]:
        """The rows of the changelog between two offsets, at most so many at a time."""
        log = joined(self.log)
        for start in range(from_offset, end_offset, rows_max):
            count = min(rows_max, end_offset - start)
            yield ChangelogRows(log.keys.slice(start, count), log.values.slice(start, count))
