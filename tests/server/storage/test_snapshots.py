"""A snapshot is taken when a segment is full, and written when the disk is next synced; a large one after that."""

from __future__ import annotations

import pytest

from semel.core.log.names import KAFKA_SNAPSHOT_SUFFIX, file_name
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot
from semel.core.producer_state.slot_index import FEW_ROWS
from semel.core.producer_state.state import ProducerState
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.snapshots import SnapshotFiles

NOW_MS = 1_000_000


@pytest.mark.parametrize("producers", [3, 600], ids=["few", "many"])
def test_a_snapshot_is_of_the_time_when_it_was_taken(
    producers: int, open_storage, crashed, make_batch
) -> None:
    storage = open_storage(durable=False)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)

    def append(sequence: int) -> None:
        for producer_id in range(producers):
            batch = make_batch(sequence, producer_id=producer_id, epoch=0)
            assert partition.append(*batch, NOW_MS).error_code == 0

    append(0)
    append(1)
    taken = partition.producers()
    partition.roll(NOW_MS)
    append(2)
    append(3)
    assert not partition.owes_snapshot, "its batches are not synced"
    partition.sync()
    assert partition.owes_snapshot == (producers > FEW_ROWS)
    partition.write_snapshot()
    assert not partition.owes_snapshot

    snapshots = SnapshotFiles(OsFileSystem(), storage.data_dir / "t-0")
    state = snapshots.load_newest(now_ms=NOW_MS)
    assert state is not None
    assert (sorted(state), state.end_offset) == (taken, 2 * producers)
    content = (storage.data_dir / "t-0" / file_name(2 * producers, KAFKA_SNAPSHOT_SUFFIX)).read_bytes()
    kafkas = decode_kafka_snapshot(content, end_offset=2 * producers, now_ms=NOW_MS)
    assert isinstance(kafkas, ProducerState)
    assert sorted(kafkas) == [(name, entry._replace(window=entry.window[-1:])) for name, entry in taken]

    after = open_storage(crashed(storage, "crashed"))
    assert after.partition("t", 0).producers() == partition.producers(), "the snapshot and the tail"
