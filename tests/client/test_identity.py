"""Where an identity can be kept, and what happens when that place fails."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

import semel
from semel import aio
from semel.client.consumer import ConsumerRecord
from semel.client.identity import IdentityFile
from semel.errors import CannotKnow, ConfigError, InputDiffers, ProducerFenced, StorageError
from semel.types import TopicPartition


def values_of(bootstrap: str, topic: str) -> list[int]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[int] = []
        while records := consumer.poll(0.3, max_records=100_000):
            values += [int(record.value or b"") for record in records]
        return values


def load(producer: semel.Producer, rows: int) -> None:
    for position, row in producer.resume(range(rows)):
        producer.send("out", str(row), position=position)


# -- as a value ------------------------------------------------------------------------------------------


def test_an_identity_is_a_value_that_any_older_copy_of_resumes_exactly(semel_server: semel.LocalLog) -> None:
    kept = [semel.SavedIdentity("loader")]
    for rows in (10, 25, 40):
        with semel.Producer(semel_server.bootstrap, identity=kept[0]) as producer:
            load(producer, rows)
            producer.flush()
            assert producer.identity is not None
            kept.append(semel.SavedIdentity.from_text(producer.identity.to_text()))
            assert producer.position == rows - 1
    with semel.Producer(semel_server.bootstrap, identity=kept[2]) as producer:
        assert producer.position == 24
        load(producer, 50)
        producer.flush()
        assert producer.rows_dropped == 15
    assert values_of(semel_server.bootstrap, "out") == list(range(50))


def test_rows_that_the_value_does_not_know_of_are_not_taken_for_new_ones(
    semel_server: semel.LocalLog,
) -> None:
    """Two runs from the same value, neither of them resuming: the second must not drop or double in silence."""
    with semel.Producer(semel_server.bootstrap, identity=semel.SavedIdentity("loader")) as producer:
        producer.send("out", "0", position=0).result(10)
    with (
        semel.Producer(semel_server.bootstrap, identity=semel.SavedIdentity("loader")) as producer,
        pytest.raises(ConfigError, match="resume"),
    ):
        producer.send("out", "1", position=1)
    assert values_of(semel_server.bootstrap, "out") == [0]


def test_a_value_or_a_store_not_both() -> None:
    with pytest.raises(ConfigError, match="kept by the caller"):
        semel.Producer("127.0.0.1:1", identity=semel.SavedIdentity("a"), identity_store="a.id")


def test_rows_without_a_position_are_refused(semel_server: semel.LocalLog) -> None:
    """After a crash they could not be told from the rows that come again."""
    with (
        semel.Producer(semel_server.bootstrap, identity=semel.SavedIdentity("loader")) as producer,
        pytest.raises(ConfigError, match="position"),
    ):
        producer.send("out", "0")


# -- in an offset commit ---------------------------------------------------------------------------------


def test_position_and_identity_ride_in_one_offset_commit(semel_server: semel.LocalLog) -> None:
    source = TopicPartition("source", 0)
    with semel.Producer(semel_server.bootstrap) as producer:
        for row in range(100):
            producer.send("source", str(row))
    store = semel.CommittedIdentity("loader", source)

    def copy(upto: int) -> None:
        with (
            semel.Consumer(semel_server.bootstrap) as consumer,
            semel.Producer(semel_server.bootstrap, identity_store=store) as producer,
        ):

            def records_after(position: int | None) -> list[tuple[int, ConsumerRecord]]:
                consumer.assign({source: 0 if position is None else position + 1})
                return [(record.offset, record) for record in consumer.poll(10, upto) if record.offset < upto]

            for position, record in producer.resume(records_after):
                producer.send("out", record.value, position=position)
            producer.flush()
            assert consumer.committed("loader") == {source: upto}  # as lag tools see it

    copy(30)
    copy(100)
    assert values_of(semel_server.bootstrap, "out") == list(range(100))


def test_a_commit_without_an_identity_is_refused(semel_server: semel.LocalLog) -> None:
    source = TopicPartition("source", 0)
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("source")
        admin.cluster.commit_offsets("loader", {source: (5, "somebody else's note")})
    with pytest.raises(StorageError, match="not a saved producer identity"):
        semel.Producer(semel_server.bootstrap, identity_store=semel.CommittedIdentity("loader", source))


def test_positions_in_a_commit_are_offsets(semel_server: semel.LocalLog) -> None:
    store = semel.CommittedIdentity("loader", TopicPartition("source", 0))
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("source")
    producer = semel.Producer(semel_server.bootstrap, identity_store=store)
    producer.send("out", "0", position="first").result(10)
    with pytest.raises(ConfigError, match="'first' is not an offset"):
        producer.flush()
    with pytest.raises(ConfigError, match="'first' is not an offset"):
        producer.close()


# -- in a file -------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_producer_and_loses_nothing(
    semel_server: semel.LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = tmp_path / "identity"
    producer = semel.Producer(semel_server.bootstrap, identity_store=identity)
    producer.send("out", "0", position=0).result(10)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            producer.flush(10)
    with pytest.raises(StorageError, match="No space left"):
        producer.send("out", "1", position=1)
    with pytest.raises(StorageError, match="No space left"):
        producer.close()
    saved = IdentityFile(identity).read()
    assert saved is not None and saved.position is None  # whole, and without what could not be saved
    assert list(tmp_path.glob("*.new")) == []
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        load(producer, 3)
        assert producer.rows_dropped == 1
    assert values_of(semel_server.bootstrap, "out") == [0, 1, 2]


@pytest.mark.parametrize("keep_bytes", [0, 10, 60])
def test_a_torn_file_is_refused_with_what_to_do(tmp_path: Path, keep_bytes: int) -> None:
    identity = tmp_path / "identity"
    file = IdentityFile(identity)
    file.write(semel.SavedIdentity("loader", 1, 2, 3))
    identity.write_bytes(identity.read_bytes()[:keep_bytes])
    with pytest.raises(StorageError, match="bring back a copy"):
        file.read()


def test_what_a_killed_copy_left_of_a_save_is_cleared_up(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    folder = tmp_path / "ids"
    folder.mkdir()
    old, young, others = (folder / name for name in ("id.7-0.new", "id.8-0.new", "another.id.7-0.new"))
    for path in (old, young, others):
        path.write_bytes(b"semel-identity")
    for path in (old, others):
        os.utime(path, (0, 0))
    semel.Producer(semel_server.bootstrap, identity_store=folder / "id").close()
    assert sorted(path.name for path in folder.iterdir()) == ["another.id.7-0.new", "id", "id.8-0.new"]


def test_a_folder_that_is_not_there_is_an_error_at_once(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "missing" / "identity")


# -- another input, another topic ------------------------------------------------------------------------


def test_an_input_that_shrank_is_refused(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        load(producer, 10)
    producer = semel.Producer(semel_server.bootstrap, identity_store=identity)
    with pytest.raises(InputDiffers, match="has 5 rows, but row 9"):
        load(producer, 5)
    producer.close()
    assert values_of(semel_server.bootstrap, "out") == list(range(10))


def test_an_input_without_the_rows_that_are_stored_is_refused(semel_server: semel.LocalLog) -> None:
    """They lie behind the saved position: only their number is known."""
    fresh = semel.SavedIdentity("loader")
    with semel.Producer(semel_server.bootstrap, identity=fresh) as producer:
        load(producer, 10)
    producer = semel.Producer(semel_server.bootstrap, identity=fresh)
    with pytest.raises(InputDiffers, match="4 rows that an earlier run stored"):
        load(producer, 6)
    producer.close()


def test_a_topic_that_was_made_anew_is_refused(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    identity = tmp_path / "identity"
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("out")
        with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
            load(producer, 10)
        admin.delete_topic("out")
        admin.create_topic("out")
    with pytest.raises(CannotKnow, match="made anew"):
        semel.Producer(semel_server.bootstrap, identity_store=identity)


def test_an_error_in_the_callers_loop_saves_no_half_position(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """Position 1 has two rows; the first was sent when the caller's own code failed."""
    identity = tmp_path / "identity"

    def run(fail: bool) -> None:
        with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
            for position, row in producer.resume(range(3)):
                producer.send("out", f"{row}0", position=position)
                if fail and position == 1:
                    raise ZeroDivisionError
                producer.send("out", f"{row}1", position=position)

    with pytest.raises(ZeroDivisionError):
        run(fail=True)
    run(fail=False)
    assert values_of(semel_server.bootstrap, "out") == [0, 1, 10, 11, 20, 21]


def test_close_of_a_fenced_copy_leaves_the_file_to_the_newer_one(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity = tmp_path / "identity"
    older = semel.Producer(semel_server.bootstrap, identity_store=identity)
    older.send("out", "0", position=0).result(10)
    older.flush()  # else its save may come behind the newer one's
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as newer:
        load(newer, 2)
        newer.flush()
        saved = identity.read_bytes()
        delivery = older.send("out", "7", position=7)
        with pytest.raises(ProducerFenced, match=r"not stored: epoch 0 .* fenced by epoch 1"):
            older.close()
        with pytest.raises(ProducerFenced):
            delivery.result(0)
        assert identity.read_bytes() == saved
    assert values_of(semel_server.bootstrap, "out") == [0, 1]


def test_the_async_producer_resumes_too(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    async def run(rows: int) -> int:
        async with aio.Producer(semel_server.bootstrap, identity_store=tmp_path / "identity") as producer:
            for position, row in producer.resume(range(rows)):
                await producer.send("out", str(row), position=position)
            await producer.flush()
            assert producer.position == rows - 1
            return producer.rows_dropped

    assert asyncio.run(run(5)) == 0
    assert asyncio.run(run(9)) == 0
    assert values_of(semel_server.bootstrap, "out") == list(range(9))
