"""What a planner appends to the merge log next: its HEAD, and entries bounded in rows and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from semel.core.flow.merge import MergeHistory
from semel.core.flow.merge_records import Entry, EntryRange, Head, InputTopic, MergeInput
from semel.core.flow.merge_stops import InputLoss, made_anew, overtaken, too_many, trimmed
from semel.core.sink.refusal import Reason, Refusal
from semel.types import NO_LEADER_EPOCH
from semel.wording import counted

ENTRY_ROWS_MAX: Final = 65_536  # offsets of an entry, over all of its inputs
ENTRY_BYTES_MAX: Final = 16 * 2**20  # of these rows, by what is known of their sizes
ENTRIES_MAX: Final = 64  # of a micro-batch, for each partition


def next_head(
    history: MergeHistory,
    epoch: int,
    owner: str,
    inputs: Sequence[MergeInput],
    log_starts: Mapping[InputTopic, int],
) -> Head | InputLoss | Refusal | None:
    """The HEAD that takes the partition over for the driver of ``epoch``; ``None``: its HEAD is in the log already."""
    stop = (
        overtaken(history, epoch)
        or made_anew(history, inputs)
        or trimmed(history, log_starts)
        or too_many(history, inputs)
    )
    if stop is not None:
        return stop
    starts = {each.key: log_starts[each.key] for each in inputs if each.key not in history.ends}
    if history.epoch != epoch:
        return Head(epoch, owner, tuple(inputs), starts)
    if not starts:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"this driver, with epoch {epoch}, took the merge log over with other inputs: a flow that is "
        f"changed is started again",
    )


def plan_entries(
    history: MergeHistory,
    inputs: Sequence[InputTopic],
    latest: Mapping[InputTopic, int],
    epoch: int,
    *,
    rows_max: int = ENTRY_ROWS_MAX,
    entries_max: int = ENTRIES_MAX,
    tick_ms: int | None = None,
    ahead: Mapping[InputTopic, int] | None = None,
    leader_epochs: Mapping[InputTopic, int] | None = None,
) -> list[Entry]:
    """What comes next: entries up to ``latest``, in proportion to what waits in each input.

    ``epoch`` is the planner's own. The ranges of an entry stand in the order of ``inputs``. A TICK comes only where
    nothing waits: it says that nothing came, and rows that wait would be late by it. ``ahead``: tables, which are read
    up to these ends before the first row of any other input; joined in proportion, old rows would meet an empty table.
    ``leader_epochs``: under which the inputs had all rows up to ``latest``.
    """
    ends, epochs = dict(history.ends), dict(history.leader_epochs)
    entries: list[Entry] = []
    is_ahead = history.is_ahead

    def add(ranges: tuple[EntryRange, ...], tick_ms: int | None = None) -> None:
        number = history.entry_count + len(entries)
        entries.append(Entry(epoch, number, ranges, dict(ends), tick_ms, is_ahead, dict(epochs)))

    while len(entries) < entries_max:
        accumulator = {key: latest[key] - ends[key] for key in inputs if latest[key] > ends[key]}
        if not accumulator:
            if tick_ms is not None and not entries:
                add((), tick_ms)
            break
        tables = ahead if is_ahead and ahead else {}
        first = {key: end - ends[key] for key, end in tables.items() if end > ends[key]}
        is_ahead = bool(first)
        ranges = []
        for key, share in shares(first or accumulator, rows_max).items():
            last = epochs.get(key, NO_LEADER_EPOCH)
            ranges.append(EntryRange(*key, ends[key], ends[key] + share, last))
            ends[key] += share
            if leader_epochs is not None and key in leader_epochs:
                epochs[key] = leader_epochs[key]
        add(tuple(ranges))
    return entries


def rows_that_fit(mean_bytes: Iterable[float], rows_max: int) -> int:
    """How many rows of these sizes an entry may have, at least one of each."""
    sizes = list(mean_bytes)
    return max(len(sizes), min(rows_max, int(ENTRY_BYTES_MAX / max(1, *sizes, 1))))


def shares(accumulator: Mapping[InputTopic, int], rows_max: int) -> dict[InputTopic, int]:
    """``rows_max`` in all, in proportion; who has anything gets at least 1, so that a slow input never waits for a
    fast one."""
    total = sum(accumulator.values())
    if total <= rows_max:
        return dict(accumulator)
    rest_max, rest = rows_max - len(accumulator), total - len(accumulator)
    if rest_max < 0:
        raise ValueError(
            f"{counted(rows_max, 'row')} cannot be shared by {counted(len(accumulator), 'input')}"
        )
    given, found = 0, {}
    before = 0
    for key, waiting in accumulator.items():
        before += waiting - 1
        share = before * rest_max // rest - given  # rounded as a sum, so that nothing is left over
        found[key], given = 1 + share, given + share
    return found
