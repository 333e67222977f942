"""One client per process and address: Spark's Python workers are pooled, and a connection outlives a task."""

from __future__ import annotations

import os
from typing import Final

from semel.client.blocking import Cluster
from semel.spark.options import Connection

_CLUSTERS: Final[dict[tuple[int, Connection], Cluster]] = {}  # by process: a fork must not share a socket


def connect(connection: Connection) -> Cluster:
    """The process's client for ``connection``."""
    key = (os.getpid(), connection)
    if key not in _CLUSTERS:
        _CLUSTERS[key] = Cluster(
            connection.bootstrap,
            client_id=connection.client_id,
            request_timeout_ms=connection.request_timeout_ms,
        )
    return _CLUSTERS[key]
