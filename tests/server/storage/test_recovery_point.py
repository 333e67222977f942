from __future__ import annotations

from pathlib import Path

from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.recovery_point import RecoveryPoint


def test_the_newest_point_is_read_back_and_a_torn_one_counts_as_none(tmp_path: Path) -> None:
    point = RecoveryPoint(OsFileSystem(), tmp_path)
    assert point.load() == 0
    point.save(7)
    point.save(2**40, durable=True)
    assert RecoveryPoint(OsFileSystem(), tmp_path).load() == 2**40
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for torn in (whole[:-1], whole[:5] + bytes([whole[5] ^ 1]) + whole[6:]):
        file.write_bytes(torn)
        assert RecoveryPoint(OsFileSystem(), tmp_path).load() == 0
