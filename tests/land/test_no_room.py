"""A disk that takes no more: the job ends in words, leaves nothing half, and goes on once there is room."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.land.landed import land, offsets, produce, read

from semel.client.blocking import Cluster
from semel.errors import StorageError
from semel.land.formats import TableFormat
from semel.local import LocalLog


@contextmanager
def no_file_of_more_than(size_bytes: int) -> Iterator[None]:
    """This process's writes fail from there on, as those to a full disk do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size_bytes", [10, 20_000], ids=["at the fence", "amid a file of rows"])
def test_a_job_without_room_ends_in_words_and_goes_on_later(
    log: LocalLog,
    cluster: Cluster,
    topic: str,
    table: Path,
    table_format: TableFormat,
    size_bytes: int,
) -> None:
    land(log.bootstrap, table, table_format, topic)
    produce(cluster, topic, 0, [os.urandom(100_000)])
    with no_file_of_more_than(size_bytes), pytest.raises((StorageError, OSError), match="large") as failed:
        land(log.bootstrap, table, table_format, topic)
    if size_bytes > 10:
        assert isinstance(failed.value, StorageError) and "run it again" in str(failed.value)
        assert not list(table.glob("semel-land-*"))
    land(log.bootstrap, table, table_format, topic)
    assert offsets(read(table, table_format)) == {(topic, 0): [0]}
