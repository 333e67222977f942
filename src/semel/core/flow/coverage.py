"""Whether a merge log has each offset of its inputs in exactly one entry, worked out from the entries alone.

This asks nothing of :class:`~semel.core.flow.merge.MergeHistory`, which says what counts: it holds the ranges against
each other, as anybody could who reads the log. Of each input they begin where the input begins, follow on each other
without a gap or an overlap, and end where the last entry says that the input ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from semel.core.flow.merge_records import InputTopic, PlacedEntry


def uncovered(entries: Iterable[PlacedEntry], log_starts: Mapping[InputTopic, int]) -> list[str]:
    """What is wrong, in words; nothing where each offset up to the last entry's ends is in one entry.

    ``log_starts``: where the inputs begin by now. An input may begin behind 0 only if it was trimmed.
    """
    ends: dict[InputTopic, int] = {}
    told: dict[InputTopic, int] = {}
    wrong: list[str] = []
    for placed in entries:
        for each in placed.entry.ranges:
            place = (
                f"the entry at offset {placed.offset} has offsets {each.from_offset} to {each.end_offset} of "
            )
            place += f"topic {each.topic!r}"
            if each.end_offset <= each.from_offset:
                wrong.append(f"{place}: they are none")
            known = ends.get(each.key)
            if known is None:
                if each.from_offset > log_starts.get(each.key, each.from_offset):
                    wrong.append(f"{place}, of which it is the first, and the topic begins before them")
            elif each.from_offset > known:
                wrong.append(f"{place}, and no entry has those from {known} on")
            elif each.from_offset < known:
                wrong.append(f"{place}, and those below {known} were in an entry before")
            ends[each.key] = each.end_offset
        told = dict(placed.entry.ends)
        wrong += [
            f"the entry at offset {placed.offset} says that topic {key.topic!r} ends at {told.get(key)}, and its "
            f"ranges end at {end}"
            for key, end in ends.items()
            if told.get(key) != end
        ]
    return wrong
