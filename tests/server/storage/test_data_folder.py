"""The folder of a server: whose it is, in which form, and what of it is whose."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from semel.core.log.names import FOLDER_PROPERTIES, PARTITION_METADATA
from semel.errors import StorageError
from semel.server.storage.data_folder import FORMAT_VERSION, DataFolder
from semel.server.storage.filesystem import OsFileSystem
from semel.types import TopicPartition

T0 = TopicPartition("t", 0)
TOPIC_ID = UUID(int=4711)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], DataFolder]:
    """The same one, opened by one server after another."""
    ids = (UUID(int=number) for number in count(1))
    last: list[DataFolder] = []

    def open_folder() -> DataFolder:
        for each in last:
            each.let_go()
        last[:] = [DataFolder(OsFileSystem(), tmp_path / "deep" / "data", lambda: next(ids))]
        return last[0]

    return open_folder


def names(folder: DataFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir() if path.is_dir()}


def test_a_folder_keeps_its_cluster_id_and_has_one_server_at_a_time(
    folder: Callable[[], DataFolder], tmp_path: Path
) -> None:
    first = folder()
    assert (first.cluster_id, first.version) == ("AAAAAAAAAAAAAAAAAAAAAQ", FORMAT_VERSION)
    with pytest.raises(StorageError, match="in use"):
        DataFolder(OsFileSystem(), first.path, lambda: UUID(int=0))
    assert folder().cluster_id == first.cluster_id


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ("version=1\ncluster.id=c\nsemel.format.version=4\n", "is of format version 4"),
        ("version=1\ncluster.id=c\nsemel.format.version=0\n", "is of format version 0"),
        ("version=1\ncluster.id=c\nbroker.id=0\n", "is another program's"),
        ("", "is another program's"),
    ],
)
def test_a_folder_that_is_not_understood_is_refused(
    folder: Callable[[], DataFolder], properties: str, found: str
) -> None:
    (folder().path / FOLDER_PROPERTIES).write_text(properties)
    with pytest.raises(
        StorageError, match=f"{found}; this semel reads format versions 1 to {FORMAT_VERSION}"
    ):
        folder()


def test_an_older_folder_is_taken_over_once(folder: Callable[[], DataFolder]) -> None:
    path = folder().path / FOLDER_PROPERTIES
    path.write_text("version=1\ncluster.id=c\nsemel.format.version=1\n")
    older = folder()
    assert (older.cluster_id, older.version) == ("c", 1)
    assert folder().version == 1, "it is not said before it is done"
    folder().note_taken_over()
    assert (folder().cluster_id, folder().version) == ("c", FORMAT_VERSION)


def test_a_clean_stop_is_believed_once(folder: Callable[[], DataFolder]) -> None:
    assert not folder().was_clean
    assert folder().leave_clean_marker()
    assert folder().was_clean
    assert not folder().was_clean


def test_a_partition_is_made_with_its_topics_id_and_goes_whole(folder: Callable[[], DataFolder]) -> None:
    data = folder()
    data.make(T0, TOPIC_ID)
    data.sync()
    assert data.has(T0)
    assert list(data.partitions()) == [T0]
    assert "topic_id: AAAAAAAAAAAAAAAAAAASZw" in (data.path / "t-0" / PARTITION_METADATA).read_text()
    data.remove([T0, TopicPartition("unknown", 0)])
    assert not data.has(T0)
    assert names(data) == set()


def test_what_could_not_be_emptied_is_emptied_by_the_next_start(
    folder: Callable[[], DataFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder()
    data.make(T0, TOPIC_ID)
    with monkeypatch.context() as patch:
        patch.setattr(OsFileSystem, "unlink", _refuse)
        data.remove([T0])
    assert not data.has(T0)
    (hidden,) = names(data)
    assert hidden.startswith("t-0.")
    assert list(folder().partitions()) == []
    assert names(data) == set()


def _refuse(*_: object) -> None:
    raise OSError("busy")


def test_what_is_somebody_elses_is_left_alone(folder: Callable[[], DataFolder]) -> None:
    data = folder()
    for theirs in ("backup-2024", "holiday-delete", "notes"):
        (data.path / theirs).mkdir()
        (data.path / theirs / "photo").write_bytes(b"mine")
    (data.path / "note-1").write_bytes(b"a file")
    (data.path / "mine-delete").write_bytes(b"a file")
    found = set(folder().partitions())
    assert found == {TopicPartition("backup", 2024), TopicPartition("note", 1)}
    for name in found:
        data.remove_orphan(name)
    assert names(data) == {"backup-2024", "holiday-delete", "notes"}
    assert (data.path / "backup-2024" / "photo").read_bytes() == b"mine"
    assert (data.path / "note-1").exists()
