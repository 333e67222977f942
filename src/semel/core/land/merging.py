"""Which small files of a table are made one: those of one value of the partition column, in the order they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from semel.core.land.manifest import DataFile

TARGET_BYTES: Final = 128 * 2**20


def merges(files: Iterable[DataFile], target_bytes: int = TARGET_BYTES) -> list[list[DataFile]]:
    """Groups of two files or more; none takes much over ``target_bytes``. Large files are left as they are."""
    found: list[list[DataFile]] = []
    by_value: dict[str | None, list[DataFile]] = {}
    for file in files:
        if file.size_bytes < target_bytes // 2:
            by_value.setdefault(file.value, []).append(file)
    for of_value in by_value.values():
        group: list[DataFile] = []
        for file in of_value:
            if group and _size(group) + file.size_bytes > target_bytes:
                found.append(group)
                group = []
            group.append(file)
        found.append(group)
    return [group for group in found if len(group) > 1]


def _size(files: Sequence[DataFile]) -> int:
    return sum(file.size_bytes for file in files)
