"""Records of a merge log of two inputs, and what counts of them."""

from __future__ import annotations

from semel.core.flow.merge import MergeHistory, entries_between
from semel.core.flow.merge_records import Entry, EntryRange, Head, InputTopic, MergeInput, PlacedEntry

CLICKS, USERS = MergeInput("clicks", "id-c", 2), MergeInput("users", "id-u", 2)
C, U = CLICKS.key, USERS.key


def read(records, from_offset: int = 0) -> list[PlacedEntry]:
    """What counts, read from a planned end on."""
    first = max(0, from_offset - 1)
    placed = list(enumerate(records))[first:]
    found = entries_between(placed, from_offset, len(records))
    assert found is not None
    return found


def history_of(records) -> MergeHistory:
    history = MergeHistory()
    for offset, record in enumerate(records):
        history.apply(offset, record)
    return history


def counting(records) -> list[int]:
    """The offsets of the records that count."""
    history = MergeHistory()
    return [offset for offset, record in enumerate(records) if history.apply(offset, record)]


def head(epoch: int, **starts: int) -> Head:
    return Head(epoch, "someone", (CLICKS, USERS), {C: starts.get("c", 0), U: starts.get("u", 0)})


def entry(epoch: int, number: int, before: dict, *ranges: EntryRange, tick_ms: int | None = None) -> Entry:
    return Entry(epoch, number, ranges, before | {each.key: each.end_offset for each in ranges}, tick_ms)


def of(key: InputTopic, from_offset: int, end_offset: int) -> EntryRange:
    return EntryRange(*key, from_offset, end_offset)


FIRST = entry(1, 0, {C: 0, U: 0}, of(C, 0, 5), of(U, 0, 2))
SECOND = entry(1, 1, FIRST.ends, of(U, 2, 3))
