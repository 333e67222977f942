"""The merge log: which of its records count, by their order alone."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tools.model.config import Config


class Head(NamedTuple):
    """A planner has taken over."""

    epoch: int
    owner: int
    starts: tuple[int, ...]


class Entry(NamedTuple):
    """Ranges of the inputs: from ``froms`` (None: nothing of it) to ``ends``, which has every input."""

    epoch: int
    froms: tuple[int | None, ...]
    ends: tuple[int, ...]
    tick: int = 0


Log = tuple[Head | Entry, ...]


class Reading(NamedTuple):
    """What counts in a stretch of the log."""

    entries: tuple[tuple[int, Entry], ...]
    epoch: int
    owner: int
    ends: tuple[int, ...]


@lru_cache(maxsize=200_000)
def read(log: Log, first: int, input_count: int, config: Config) -> Reading:
    """The entries that count from offset ``first`` on; the record before it says what was before."""
    epoch, owner, ends = 0, -1, (0,) * input_count
    knows = True
    if first:
        before = log[first - 1]
        epoch, ends = before.epoch, (before.starts if isinstance(before, Head) else before.ends)
        knows = config.holds("readers know what was before")
    hindsight = max((each.epoch for each in log if isinstance(each, Head)), default=0)
    entries = []
    for offset in range(first, len(log)):
        record = log[offset]
        if isinstance(record, Head):
            stale = record.starts != ends and config.holds("heads start at the known ends")
            if knows and (record.epoch <= epoch or stale):
                continue
            epoch, owner, ends, knows = record.epoch, record.owner, record.starts, True
            continue
        if knows:
            if record.epoch != epoch and config.holds("entries name the newest head"):
                continue
            if not config.holds("validity by log order") and record.epoch != hindsight:
                continue
            if not _follows(record, ends) and config.holds("entries follow on"):
                continue
        else:
            epoch, knows = record.epoch, True
        ends = record.ends
        entries.append((offset, record))
    return Reading(tuple(entries), epoch, owner, ends)


def _follows(entry: Entry, ends: tuple[int, ...]) -> bool:
    ranges = zip(entry.froms, ends, entry.ends, strict=True)
    return all(begin == known < end if begin is not None else known == end for begin, known, end in ranges)


def broken_order(entries: tuple[tuple[int, Entry], ...], input_count: int) -> str | None:
    """Whether the entries that count promise every row once."""
    ends = [0] * input_count
    for _, entry in entries:
        for number, begin in enumerate(entry.froms):
            if begin is not None and begin < ends[number]:
                return "a row is promised twice"
            if begin is not None and begin > ends[number]:
                return "a row is promised to nobody"
            if begin is not None:
                ends[number] = entry.ends[number]
    return None
