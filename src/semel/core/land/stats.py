"""What a Parquet file's footer says of its columns, as Delta's log has it: readers skip files by it.

Only what is exact: counts of rows and nulls, and the smallest and largest of whole numbers, dates and times.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow.parquet as pq


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
        if filled and all(group.has_min_max and _is_exact(group.min) for group in filled):
            smallest[name] = _text(min(group.min for group in filled))
            largest[name] = _text(max(group.max for group in filled))
    told = {
        "numRecords": footer.num_rows,
        "minValues": smallest,
        "maxValues": largest,
        "nullCount": nulls,
    }
    return json.dumps(told, separators=(",", ":"))


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | date) and not isinstance(value, bool)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value
