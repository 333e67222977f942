from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.storage.conftest import NOW_MS, MakeBatch

from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.log_segments import LogSegments
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.segment import Segment


@pytest.fixture
def segments(tmp_path: Path, make_batch: MakeBatch) -> LogSegments:
    """Three of two records each, from offset 0 on."""
    files = OpenFiles(OsFileSystem(), cold_files_max=8)
    found = LogSegments(())
    for base_offset in (0, 2, 4):
        fresh = Segment.create(files, tmp_path, base_offset, now_ms=NOW_MS)
        batch, (header,) = make_batch(count=2)
        fresh.write([batch])
        fresh.note(header.size_bytes, base_offset + 1, NOW_MS, index_interval_bytes=4_096)
        found.add(fresh)
    return found


def test_every_offset_has_its_segment(segments: LogSegments) -> None:
    assert segments.base_offsets == (0, 2, 4)
    held = [segments.holding(offset) for offset in (0, 1, 2, 5, 6)]
    assert held == [segments.all[n] for n in (0, 0, 1, 2, 2)]
    assert segments.holding(-1) is None


def test_full_ones_get_cold_as_far_as_they_are_synced(segments: LogSegments) -> None:
    assert segments.warm == 3
    segments.cool_down(3)
    assert segments.warm == 2
    segments.cool_down(6)
    assert segments.warm == 1  # never the one that grows


def test_what_is_cut_off_is_out_of_reach_before_its_files_go(segments: LogSegments, tmp_path: Path) -> None:
    segments.cool_down(6)
    before = len(list(tmp_path.iterdir()))
    segments.cut_front(2)
    assert segments.holding(3) is None
    assert (segments.base_offsets, segments.warm, segments.has_going) == ((4,), 1, True)
    assert len(list(tmp_path.iterdir())) == before
    segments.remove_going(OsFileSystem(), tmp_path)
    assert not segments.has_going
    assert len(list(tmp_path.iterdir())) == before // 3


def test_a_log_that_was_let_go_holds_nothing(segments: LogSegments) -> None:
    segments.cut_front(1)
    segments.close()
    assert (segments.all, segments.base_offsets, segments.has_going) == ((), (), False)
    assert segments.holding(0) is None
