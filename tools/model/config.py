"""The rules that can be left out, and the sizes of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RULES: Final = {
    # merge log
    "entries follow on": "an entry counts only if its ranges begin where the entries before it end",
    "entries name the newest head": "an entry counts only under the newest head's epoch",
    "validity by log order": "what counts is told by the records before it; a later head takes nothing away",
    "heads start at the known ends": "a head counts only if it begins where the entries before it end",
    "heads have the sink's epoch": "a head's epoch is that of the FENCE its driver appended, not the newest head's + 1",
    "take over again": "(where heads count up) who was overtaken and still holds the sink takes the merge log again",
    "planners read back": "an entry is planned only when it was read back and counts",
    "readers know what was before": "reading begins with the record before the range, which says epoch and ends",
    "recorded entries first": "after a restart the entries beyond the decided end are used, whoever wrote them",
    "every partition moves": "a micro-batch has each partition with entries, for some of their rows may be stored",
    "fence, then read": "the sink is fenced before the decided ends are read",
    "one fence": "a first run begins only if no newer FENCE is in than the one its source appended",
    "the range begins at the decided end": "a run writes only what begins exactly where the last decision ended",
    # folds
    "emission per entry": "a fold is called once for each entry, never once a micro-batch",
    "order within an entry": "an entry's rows come in a fixed order of its inputs",
    "mode per entry": "where the state lies (commit or changelog) is settled at entries' ends, not at micro-batches'",
    "time is recorded": "time goes forward by rows and TICK entries, and is kept in the state; no clock",
    # state
    "tasks start from the decision": "a task's state is that of the decision; nothing is left over in the worker",
    "idle states are carried": "a DECISION carries the states of writers without rows forward",
    "decided messages only": "a restore takes the messages of entries below the decided end only",
    "restores end with the decision": "a restore reads no further than the outputs' ends in the DECISION",
    "no compaction": "the changelog is kept whole behind its snapshot",
    "trim below decided snapshots": "the changelog is trimmed below a snapshot that a DECISION names",
    "snapshots are named from below": "a snapshot is named by where its writer's undecided rows began",
    "a trimmed changelog is refused": "a restore that finds its first messages trimmed stops",
    # store
    "overlays apart": "an attempt's changes stay out of the store until they are decided",
    "pending by digest": "a local copy of changes is used only if the DECISION has its digest",
    "digest has its ends": "that digest is of the offsets from and to as well",
    "pending from the tag": "a local copy of changes is used only on the state that it was made from",
    "tags have a birth": "a store's tag says which life of the state it is of; a reset begins another",
    "newer tags are rebuilt": "a store that is ahead of a task's decided end is not its state",
    "one snapshot of the store": "a task reads the store in the one snapshot in which it has seen the tag",
    "read up to the first undecided": "a store remembers the changelog up to the first message that it left out",
    "no roll across a trim": "a store that lacks trimmed messages is rebuilt from the snapshot",
    "tag and rows together": "rows and tag are changed in one transaction",
    # lineage
    "marks are state": "the marks of seen rows are state, decided with it",
    "marks per source": "there is a mark for each source partition",
    "writers keep order": "rows of one source partition arrive in its order, apart from repeats",
}


@dataclass(frozen=True, slots=True)
class Config:
    """One search: what is left out, and how much of everything there is."""

    without: frozenset[str] = frozenset()
    # By stage partition and input: the rows' numbers at their source. Equal numbers are repeats, for lineage.
    inputs: tuple[tuple[tuple[int, ...], ...], ...] = (((0, 1),),)
    key_count: int = 1
    keep: str = "all"  # what a key's value is: "all" its rows, or the "last" one
    sizes: tuple[tuple[int, ...], ...] = ((1,), (2,))  # of an entry, in rows by input
    entries_max: int = 2  # of a micro-batch
    drivers: int = 2
    twins: int = 0
    copies: int = 0  # appends to the merge log that are stored once more, later
    lost: int = 0  # answers of such appends
    ticks: int = 0
    resets: int = 0  # each with another function
    compactions: int = 0
    changes_of: tuple[int, ...] = (
        0,
    )  # versions of what a function does: more than one, and it is not deterministic
    inline_max: int = 99  # rows of state in a DECISION
    changes_max: int = 99  # since a snapshot
    trims: bool = False
    has_store: bool = False
    elsewhere: int = 0  # tasks that may run on another executor, which has no store yet
    is_warm: bool = False  # every row is an entry already, and the first one of them is decided
    has_lineage: bool = False

    def holds(self, rule: str) -> bool:
        """Whether ``rule`` is in force."""
        assert rule in RULES, rule
        return rule not in self.without
