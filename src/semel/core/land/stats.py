"""What a Parquet file's footer says of its columns, as Delta's log has it: readers skip files by it.

Only what is exact: counts of rows and nulls, and the smallest and largest of whole numbers, dates and times. For a year
that has not four digits, as a clock that counts in another unit says, Delta's log has no text: the first or the last
year that has stands for it, for where one file has bounds and another has none, deltalake's dataset skips the latter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow.parquet as pq

_ENDS: Final = {  # of the times that Delta's log has a text for, by Parquet's logical type
    "TIMESTAMP": (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    "DATE": (date.min, date.max),
}


def delta_stats(footer: pq.FileMetaData) -> str:
    """The text of an ``add`` action's ``stats``."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        if "." in name:  # a part of a nested column
            continue
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if not groups or any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        filled = [group for group in groups if group.num_values]  # which counts no nulls
        bounds = _bounds(filled)
        if bounds is not None:
            smallest[name], largest[name] = map(_text, bounds)
    told = {
        "numRecords": footer.num_rows,
        "minValues": smallest,
        "maxValues": largest,
        "nullCount": nulls,
    }
    return json.dumps(told, separators=(",", ":"))


def _bounds(groups: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """The smallest and largest value of the row groups, where they are exact and can be told."""
    if not groups or not all(group.has_min_max for group in groups):
        return None
    first, last = _ENDS.get(groups[0].logical_type.type, (None, None))
    smallest = _told(lambda: min(group.min for group in groups), first)
    largest = _told(lambda: max(group.max for group in groups), last)
    return (smallest, largest) if _is_exact(smallest) and _is_exact(largest) else None


def _told(find: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return find()
    except (OverflowError, ValueError):  # a date or time of Parquet's that is none of Python's
        return otherwise


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | date) and not isinstance(value, bool)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return value.isoformat() if isinstance(value, date) else value
