"""What an audit keeps: nothing of it stays behind, and where room is lacking it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semel.audit.checks import compare
from semel.audit.store import NoRoom, Room, Rows, RowStore
from semel.errors import SemelError

MIB = 2**20


def fill(rows: Rows, count: int, first: int = 0) -> None:
    for begin in range(first, first + count, 100_000):
        numbers = np.arange(begin, min(begin + 100_000, first + count), dtype=np.int64)
        rows.add(0, numbers, pa.array(numbers).cast(pa.string()).cast(pa.binary()))


def test_nothing_stays_behind(tmp_path: Path) -> None:
    with RowStore(Room(folder=tmp_path)) as store:
        fill(store.rows("t"), 200_000)
        store.settle()
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), RowStore(Room(folder=tmp_path)):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_rows_beyond_the_disk_that_is_allowed_are_refused(tmp_path: Path) -> None:
    room = Room(disk_bytes_max=4 * MIB, folder=tmp_path)
    told = r"no room for the audit in .*--disk-max allows 4 MiB.*by --scratch"
    with pytest.raises(NoRoom, match=told), RowStore(room) as store:
        fill(store.rows("t"), 2_000_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_more_rows_than_memory_are_compared(tmp_path: Path) -> None:
    """Two sides of 30 MB in identities alone, with 48 MiB for all of it."""
    with RowStore(Room(memory_bytes_max=48 * MIB, folder=tmp_path)) as store:
        source, output = store.rows("in"), store.rows("out")
        fill(source, 2_000_000)
        fill(output, 1_999_999, first=1)
        result = compare(source, output, order=False)
    assert {each.check: each.row_count for each in result.findings} == {"missing": 1}
    assert (result.findings[0].examples[0].offset, result.matched_rows) == (0, 1_999_999)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(SemelError, match="is no folder: nothing was read"):
        RowStore(Room(folder=tmp_path / "none"))


def test_offsets_far_apart_keep_their_places() -> None:
    with RowStore() as store:
        rows = store.rows("t")
        offsets = np.array([2**62, 2**62 + 5, 2**62 + 2**40], np.int64)
        rows.add(7, offsets, pa.array([b"a", b"a", b"b"]))
        rows.add(3, offsets[:1], pa.array([b"c"]))
        assert [rows.at(rows.place(7, int(each))) for each in offsets] == [(7, int(each)) for each in offsets]
        assert rows.at(rows.place(3, 2**62)) == (3, 2**62)
