"""What the flows of a simulation do: as steps for the product, and in plain words for the checkers.

Rows of one or two sources are multiplied, sent through a topic of the flow's own by user, and folded: row by row into
how many there were of a user and in which order, or, by a ready fold, into how many, once for each entry. These two
are told in plain words. Windows and joins are not: a replay runs their steps over what is recorded, entry by entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from semel.core.flow.changelog import ROW_OVERHEAD_BYTES
from semel.flow import source
from semel.flow.plan import Plan

COLUMNS: Final = "user string, id bigint, at timestamp"
LEVELS: Final = "user string, level bigint"
TOLD: Final = "user string, id bigint, count bigint, mixed bigint"
TIMES: Final = (1, 2, 0, 1)  # how many rows are made of one, by its id
COPIES: Final = 4  # ids made of one
POISON_EVERY: Final = 13
STATE_ROW_BYTES: Final = 20 + ROW_OVERHEAD_BYTES  # about as much as one user's state takes

Row = dict[str, Any]


class End(Enum):
    """What becomes of the rows that were keyed."""

    FOLDED = "row by row"
    COUNTED = "by the ready fold"
    IN_WINDOWS = "counted in windows"
    JOINED = "with the last row of the other source"


@dataclass(frozen=True, slots=True)
class Doing:
    """Which of the flows it is."""

    sources: tuple[str, ...]
    partition_count: int  # of its own topics
    end: End
    forgets_at: int = 0  # a typed fold deletes a user's state at so many rows, and begins anew; 0: never
    idle: str | None = None  # of windows: the flow asks for ticks
    repairs: bool = False  # of a join

    @property
    def is_plain(self) -> bool:
        """Whether its meaning is told in plain words."""
        return self.end in (End.FOLDED, End.COUNTED)


@dataclass
class Seen:
    """Of one user."""

    count: int
    mixed: int  # the ids of the rows, in their order


def plan_of(name: str, doing: Doing, *, output: str, is_mended: bool) -> Plan:
    """Of the flow ``name``. A step that is not mended fails at some rows."""
    topics = doing.sources if doing.end is not End.JOINED else doing.sources[:1]
    keyed = [
        source(topic, json=COLUMNS)
        .flat_map(_splitting(is_mended), schema=COLUMNS)
        .key_by("user", partitions=doing.partition_count)
        for topic in topics
    ]
    stream: Any = keyed[0].merge(*keyed[1:]) if keyed[1:] else keyed[0]
    match doing.end:
        case End.FOLDED:
            made = stream.fold(_seeing(is_mended, doing.forgets_at), schema=TOLD)
        case End.COUNTED:
            made = stream.count()
        case End.IN_WINDOWS:
            made = stream.tumbling("10 s", on="at", lateness="3 s", idle=doing.idle).count()
        case End.JOINED:
            levels = source(doing.sources[1], json="user string, id bigint").map(level_of, schema=LEVELS)
            table = levels.key_by("user", partitions=doing.partition_count).as_table("user")
            made = stream.join(table, "left", repair=doing.repairs)
    plan: Plan = made.to(output).named(name).plan()
    return plan


def level_of(row: Any) -> Row:
    """A row of the table that is joined."""
    return {"user": row.user, "level": row.id}


def _splitting(is_mended: bool) -> Callable[[Any], list[Row]]:
    def split(row: Any) -> list[Row]:
        if row.id % POISON_EVERY == 7 and not is_mended:
            raise ValueError("a row that the step cannot take")
        return split_row(row.user, row.id, row.at)

    return split


def _seeing(is_mended: bool, forgets_at: int) -> Callable[[Any, Any], Any]:
    def see(state: Seen | None, row: Any) -> tuple[Seen | None, list[Row]]:
        if row.id % POISON_EVERY == 3 and not is_mended:
            raise ValueError("a row that the fold cannot take")
        return seen_next(state, row.user, row.id, forgets_at)

    return see


# -- in plain words ---------------------------------------------------------------------------------------


def split_row(user: str | None, row_id: int, at: Any) -> list[Row]:
    """The rows that are made of one."""
    times = TIMES[row_id % len(TIMES)]
    return [{"user": user, "id": COPIES * row_id + copy, "at": at} for copy in range(times)]


def seen_next(before: Seen | None, user: str, row_id: int, forgets_at: int) -> tuple[Seen | None, list[Row]]:
    """The typed fold: state and rows behind one more row."""
    count, mixed = (0, 0) if before is None else (before.count, before.mixed)
    now = Seen(count + 1, (31 * mixed + row_id) % 2**31)
    told = {"user": user, "id": row_id, "count": now.count, "mixed": now.mixed}
    return (None if now.count == forgets_at else now), [told]


class Meaning:
    """A stateful stage's state and rows, entry by entry, without a step of the product's."""

    def __init__(self, doing: Doing) -> None:
        self._doing = doing
        self._is_counted = doing.end is End.COUNTED
        self._seen: dict[bytes, Seen] = {}

    def entry(self, rows: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, Row]]:
        """Keys and values of the next entry's rows to those of what is written."""
        made: list[tuple[bytes, Row]] = []
        first: dict[bytes, str] = {}
        for key, value in rows:
            row = json.loads(value)
            forgets_at = 0 if self._is_counted else self._doing.forgets_at
            now, told = seen_next(self._seen.get(key), row["user"], row["id"], forgets_at)
            if now is None:
                self._seen.pop(key)
            else:
                self._seen[key] = now
            if self._is_counted:
                first.setdefault(key, row["user"])
            else:
                made += [(key, each) for each in told]
        made += [(key, {"user": user, "count": self._seen[key].count}) for key, user in first.items()]
        return made

    def state(self) -> dict[bytes, Any]:
        """By key, as it is read back."""
        if self._is_counted:
            return {key: seen.count for key, seen in self._seen.items()}
        return {key: {"count": seen.count, "mixed": seen.mixed} for key, seen in self._seen.items()}


def counts_of(doing: Doing, rows_of: Mapping[bytes, int]) -> dict[bytes, int]:
    """What the state of each key counts when it has had so many rows; a key whose state is deleted is left out."""
    forgets_at = 0 if doing.end is End.COUNTED else doing.forgets_at
    counted = {key: count % forgets_at if forgets_at else count for key, count in rows_of.items()}
    return {key: count for key, count in counted.items() if count}


def count_in(state: Any) -> int:
    """Of one user's state, as it is read back."""
    return int(state if isinstance(state, int) else state["count"])
