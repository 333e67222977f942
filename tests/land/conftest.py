"""One log for the tests of a file, and a new topic and table for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.client.blocking import Cluster
from semel.land.formats import TableFormat
from semel.local import LocalLog

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    # Rows of these tests are of 1970: a round of retention, every five minutes, would take them.
    with LocalLog(tmp_path_factory.mktemp("landed"), durability="page-cache", log_retention_ms=-1) as log:
        yield log


@pytest.fixture
def cluster(log: LocalLog) -> Iterator[Cluster]:
    with Cluster(log.bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Empty, with two partitions."""
    name = f"t{next(_NUMBERS)}"
    cluster.create_topics({name: 2})
    return name


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture(params=list(TableFormat), ids=lambda each: each.value)
def table_format(request: pytest.FixtureRequest) -> TableFormat:
    return TableFormat(request.param)
