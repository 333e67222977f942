"""Small helpers for logs on a real disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from semel.core.log.admission import AppendOrigin
from semel.core.log.config import LogConfig
from semel.record.batch import BatchHeader, Record, decode_header, encode_batch
from semel.record.control import encode_abort_marker
from semel.server.storage.filesystem import FileSystem
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000


class MakeBatch(Protocol):
    def __call__(
        self,
        base_sequence: int = -1,
        count: int = 1,
        *,
        producer_id: int = -1,
        epoch: int = -1,
        timestamp_ms: int = NOW_MS,
        value_bytes: int = 10,
    ) -> tuple[memoryview, list[BatchHeader]]: ...


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    """One request's batch, as the server hands it to a partition."""

    def make(
        base_sequence: int = -1,
        count: int = 1,
        *,
        producer_id: int = -1,
        epoch: int = -1,
        timestamp_ms: int = NOW_MS,
        value_bytes: int = 10,
    ) -> tuple[memoryview, list[BatchHeader]]:
        if base_sequence >= 0 and producer_id < 0:
            producer_id, epoch = 7, 0
        value = b"v" * (value_bytes - 1) + b"."  # a torn tail of zeros must show
        records = [Record(n, timestamp_ms + n, b"k", value, (("h", b"x"),)) for n in range(count)]
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence
        )
        return memoryview(batch), [decode_header(batch)]

    return make


class Fence(Protocol):
    def __call__(
        self, partition: Partition, producer_id: int, epoch: int, coordinator_epoch: int = 0
    ) -> AppendOutcome: ...


@pytest.fixture(scope="session")
def fence() -> Fence:
    """Append a marker that fences a producer, as the server does when it is asked to."""

    def append_marker(
        partition: Partition, producer_id: int, epoch: int, coordinator_epoch: int = 0
    ) -> AppendOutcome:
        marker = encode_abort_marker(producer_id, epoch, coordinator_epoch, NOW_MS)
        incoming = Incoming(memoryview(marker), [decode_header(marker)], AppendOrigin.COORDINATOR)
        return partition.append_all([incoming], NOW_MS)[0]

    return append_marker


class OpenStorage(Protocol):
    def __call__(
        self,
        folder: str | Path = "data",
        *,
        durable: bool = True,
        file_system: FileSystem | None = None,
        now_ms: int = NOW_MS,
        **config: int,
    ) -> Storage: ...


@pytest.fixture
def open_storage(tmp_path: Path) -> OpenStorage:
    """Open a data folder below the test's own folder."""

    def open_it(
        folder: str | Path = "data",
        *,
        durable: bool = True,
        file_system: FileSystem | None = None,
        now_ms: int = NOW_MS,
        **config: int,
    ) -> Storage:
        settings = StorageSettings(durable=durable, default_config=LogConfig(**config))
        return Storage.open(tmp_path / folder, file_system, settings, now_ms=now_ms)

    return open_it


@pytest.fixture
def crashed(tmp_path: Path) -> Callable[[Storage, str], Path]:
    """What kill -9 leaves: the files as they are now, under another name, which nobody has locked."""

    def copy(storage: Storage, name: str) -> Path:
        target = tmp_path / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(storage.data_dir, target)
        return target

    return copy
