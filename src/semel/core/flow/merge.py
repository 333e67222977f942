"""The merge log: the order in which a stage reads its inputs, as records that count by their place in the log alone.

A stateful stage depends on how its inputs interleave and on where they are cut, so both are written down before a row
is read. Partition p of the merge log belongs to partition p of every input. Its records:

- HEAD: a planner takes the partition over. It counts if its epoch is above that of every HEAD before it that counts.
  The epoch is that of the FENCE by which the same driver took the stage's sink over before: who is fenced there can
  never take the merge log from who fenced it, however late its HEAD comes.
- ENTRY: a range of offsets of each input that had something new, or a TICK, which says for how long nothing had. It
  counts if it is of the newest HEAD's epoch, has the number that comes next, and goes on exactly where each input
  ended.

No record has a producer identity, and none is needed: what does not count is void for every reader, for ever,
because all read the same log in the same order. Hence, whatever is appended twice, late, or by a planner that was
overtaken:

- the entries that count are without a gap or an overlap for each input: each offset is in exactly one of them;
- a record that counts goes on to count, and one that is void stays void, when the log grows;
- an entry carries all that is known behind it, so that reading may begin behind any entry that counts, at the *planned
  end* ``its offset + 1``, and gives the same as reading from the start.

Offsets of the merge log are the stage's offsets: an entry belongs to ``[from, end)`` if its own offset does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from semel.core.flow.merge_records import Entry, EntryRange, Head, InputTopic, MergeRecord, PlacedEntry

__all__ = ["Entry", "EntryRange", "MergeHistory", "PlacedEntry", "begun_behind", "entries_between"]


INPUTS_MAX: Final = 64  # topics that a merge log ever had as inputs
NO_EPOCH: Final = -1  # of a partition that nobody has taken over


@dataclass(slots=True)
class MergeHistory:
    """What the records of one partition say, taken in in log order."""

    epoch: int = NO_EPOCH
    owner: str = ""  # of the newest HEAD; empty where reading began behind it
    entry_count: int = 0
    ends: dict[InputTopic, int] = field(default_factory=dict)
    planned_end: int = 0  # behind the last entry that counts
    is_ahead: bool = True  # no row was recorded but of tables that were read ahead
    leader_epochs: dict[InputTopic, int] = field(default_factory=dict)  # that go with ``ends``, where known

    @classmethod
    def at(cls, placed: PlacedEntry) -> MergeHistory:
        """As it is behind an entry that counts, whatever stands before it."""
        entry = placed.entry
        return cls(
            entry.epoch,
            "",
            entry.number + 1,
            dict(entry.ends),
            placed.offset + 1,
            entry.is_ahead,
            dict(entry.leader_epochs),
        )

    def apply(self, offset: int, record: MergeRecord) -> bool:
        """Take the next record in; ``False`` for one that is void."""
        match record:
            case Head():
                if not self._takes_over(record):
                    return False
                self.epoch, self.owner = record.epoch, record.owner
                for each in record.inputs:
                    if each.key not in self.ends:
                        self.ends[each.key] = record.starts[each.key]
            case Entry():
                if not self._goes_on(record):
                    return False
                self.entry_count += 1
                self.ends = dict(record.ends)
                self.planned_end = offset + 1
                self.is_ahead = record.is_ahead
                self.leader_epochs = dict(record.leader_epochs)
        return True

    def _takes_over(self, head: Head) -> bool:
        ids = {known.topic: known.topic_id for known in self.ends}
        for each in head.inputs:
            if ids.setdefault(each.topic, each.topic_id) != each.topic_id:
                return False  # made anew: whoever sees it has to stop
            if each.key not in self.ends and each.key not in head.starts:
                return False
        return head.epoch > self.epoch and len(ids) <= INPUTS_MAX

    def _goes_on(self, entry: Entry) -> bool:
        if entry.epoch == NO_EPOCH or entry.epoch != self.epoch or entry.number != self.entry_count:
            return False
        if bool(entry.ranges) == (entry.tick_ms is not None):
            return False
        ends = dict(self.ends)
        for each in entry.ranges:
            # Once for each input: a second range of one does not begin where the input ended before the entry.
            if self.ends.get(each.key) != each.from_offset or each.end_offset <= each.from_offset:
                return False
            ends[each.key] = each.end_offset
        return len({each.key for each in entry.ranges}) == len(entry.ranges) and ends == entry.ends


def begun_behind(planned_end: int, records: Iterator[tuple[int, MergeRecord]]) -> MergeHistory | None:
    """The history at ``planned_end``, by the first of ``records``, which is to be the entry right before it; ``None``:
    there is none, so that this is no planned end."""
    offset, record = next(records, (None, None))
    if offset != planned_end - 1 or not isinstance(record, Entry):
        return None
    return MergeHistory.at(PlacedEntry(planned_end - 1, record))


def entries_between(
    records: Iterable[tuple[int, MergeRecord]], from_offset: int, end_offset: int
) -> list[PlacedEntry] | None:
    """The entries of ``[from_offset, end_offset)`` that count.

    ``records`` begin right before ``from_offset``, a planned end, or with the log itself where that is 0. ``None``:
    there stands no entry.
    """
    rest = iter(records)
    history = begun_behind(from_offset, rest) if from_offset else MergeHistory()
    if history is None:
        return None
    return [
        PlacedEntry(offset, record)
        for offset, record in rest
        if offset < end_offset and history.apply(offset, record) and isinstance(record, Entry)
    ]
