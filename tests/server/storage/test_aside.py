"""Changes that stop at each work aside: what others may do there, and what a crash leaves there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.core.log.watermarks import FetchIsolation
from semel.core.topics import Topic
from semel.errors import ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.server.storage.aside import Change, aside, at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition

NOW_MS = 1_000_000


def stops(change: Change[object]) -> Iterator[None]:
    """Before and after each work aside; nothing when the change has ended."""
    while True:
        try:
            work = change.send(None)
        except StopIteration:
            return
        yield
        work.run()
        yield


def offsets(partition: Partition) -> list[int]:
    found: list[int] = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        piece = partition.read(offset, 1000, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice)
        for batch, header in scan_batches(piece.read()):
            found += [record.offset for record in decode_records(batch) if record.offset >= offset]
            offset = header.last_offset + 1
    return found


def test_the_result_and_the_error_come_where_the_work_was_awaited() -> None:
    async def change() -> str:
        with pytest.raises(ZeroDivisionError):
            await aside(divmod, 1, 0)
        quotient, _ = await aside(divmod, 7, 2)
        return f"seven halved is {quotient}"

    assert at_once(change()) == "seven halved is 3"


def test_a_topic_is_there_at_once_or_not_at_all(open_storage, crashed) -> None:
    storage = open_storage()
    for n, _ in enumerate(stops(storage.create_topic("t", 3, now_ms=NOW_MS))):
        assert storage.topics.get("t") is None
        assert storage.partition("t", 0) is None
        after = open_storage(crashed(storage, f"crash {n}"))
        topic = after.topics.get("t")
        assert [after.partition("t", k) is not None for k in range(3)] == [topic is not None] * 3
        after.close(now_ms=NOW_MS)
    assert n > 2
    assert storage.partition("t", 2) is not None


def test_a_deletion_may_end_anywhere(open_storage, crashed, make_batch) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", 2, now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.sync()
    for n, _ in enumerate(stops(storage.delete_topic("t", now_ms=NOW_MS))):
        is_there = storage.topics.get("t") is not None
        assert (storage.partition("t", 0) is not None) == partition.is_online == is_there
        after = open_storage(crashed(storage, f"crash {n}"))
        if is_there and after.topics.get("t") is not None:
            assert offsets(after.partition("t", 0)) == [0, 1, 2]
        at_once(after.delete_topic("t", now_ms=NOW_MS))
        assert isinstance(at_once(after.create_topic("t", 2, now_ms=NOW_MS)), Topic)
        assert offsets(after.partition("t", 0)) == []
        after.close(now_ms=NOW_MS)
    assert n > 2
    assert partition.append(*make_batch(3), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("durable", [True, False])
def test_a_log_goes_on_while_it_is_trimmed(open_storage, crashed, make_batch, durable: bool) -> None:
    """Appends, rolls, reads, searches and crashes between all that a trim does."""
    storage = open_storage(durable=durable, segment_bytes=1024)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    sequence = 0

    def append() -> None:
        nonlocal sequence
        outcome = partition.append(*make_batch(sequence, value_bytes=400), NOW_MS)
        assert (outcome.error_code, outcome.base_offset) == (ErrorCode.NONE, sequence)
        sequence += 1

    for _ in range(9):
        append()
    partition.sync()
    starts = []
    for n, _ in enumerate(stops(partition.delete_records(7))):
        append(), append()
        start = partition.log_start_offset
        starts.append(start)
        assert offsets(partition) == list(range(start, sequence))
        if n % 2:
            partition.sync()
            assert partition.offset_for_timestamp(0).offset == start
        after = open_storage(crashed(storage, f"crash {n}"), segment_bytes=1024)
        recovered = after.partition("t", 0)
        assert recovered.log_start_offset in (start, 7)
        assert offsets(recovered) == list(range(recovered.log_start_offset, sequence))
        assert recovered.producers()[0][1].last_sequence == sequence - 1
        after.close(now_ms=NOW_MS)
    assert starts[0] == 0
    assert starts[-1] == 7
    assert partition.segment_base_offsets[0] in (6, 7)


def test_what_could_not_be_removed_comes_round_again(open_storage, make_batch, monkeypatch) -> None:
    from semel.server.storage.filesystem import OsFileSystem

    storage = open_storage(segment_bytes=1024)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for n in range(9):
        partition.append(*make_batch(n, value_bytes=400), NOW_MS)
    partition.sync()

    def fails(self: OsFileSystem, path: object) -> None:
        raise OSError(5, "input/output error")

    folder = storage.data_dir / "t-0"
    with monkeypatch.context() as patch:
        patch.setattr(OsFileSystem, "unlink", fails)
        assert at_once(partition.delete_records(8)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert offsets(partition) == [8]
    assert (folder / f"{0:020d}.log").exists()
    at_once(partition.apply_retention(NOW_MS))
    assert sorted(path.name for path in folder.glob("*.log")) == [f"{8:020d}.log"]
