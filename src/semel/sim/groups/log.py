"""What the coordinator's log adds up to, record by record: a second opinion, which knows more of the past."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.group.records import CommittedOffset, OffsetKey, StoredGroup


@dataclass(slots=True)
class GroupLog:
    """A *place* is a record's offset. What is not durable yet may be gone after a power cut: then it begins anew."""

    groups: dict[str, StoredGroup] = field(default_factory=dict)  # as of their newest records
    group_places: dict[str, int] = field(default_factory=dict)  # of those
    assigned_places: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # generations, with theirs
    gone_places: dict[str | OffsetKey, int] = field(
        default_factory=dict
    )  # where one was last said to be gone
    note_places: dict[OffsetKey, dict[str, int]] = field(default_factory=dict)  # of each commit's newest copy
    first_places: dict[OffsetKey, dict[str, int]] = field(default_factory=dict)  # and of its first
    durable_end: int = 0
    refused_from: int | None = None  # the disk refused a record here: memory may be ahead of the log

    def begin_anew(self) -> None:
        """A process comes up: what it finds is all that there is, and it knows no more."""
        for known in (
            self.groups,
            self.group_places,
            self.assigned_places,
            self.gone_places,
            self.note_places,
            self.first_places,
        ):
            known.clear()
        self.refused_from = None

    def group_came(self, place: int, group_id: str, stored: StoredGroup | None) -> None:
        if stored is None:
            self.groups.pop(group_id, None)
            self.assigned_places.pop(group_id, None)
            self.gone_places[group_id] = place
        else:
            self.groups[group_id] = stored
            self.assigned_places.setdefault(group_id, []).append((stored.generation_id, place))
        self.group_places[group_id] = place

    def offset_came(self, place: int, key: OffsetKey, committed: CommittedOffset | None) -> None:
        if committed is None:
            self.gone_places[key] = place
        else:
            self.note_places.setdefault(key, {})[committed.metadata] = place
            self.first_places.setdefault(key, {}).setdefault(committed.metadata, place)

    def is_in_doubt(self, group_id: str) -> bool:
        """Whether the coordinator may know better than its log what the group is."""
        return self.refused_from is not None and self.group_places.get(group_id, -1) < self.refused_from

    def is_durable(self, place: int) -> bool:
        return place < self.durable_end
