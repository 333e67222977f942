"""A Spark session that works on a fresh machine: Java found, workers on this interpreter, UTC."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from semel.spark.java import java_home

# Spark names a socket "/.<uuid>.sock" in its folder, and the system bounds the path: macOS at 103 bytes.
_SOCKET_NAME_BYTES: Final = 43
_SOCKET_PATH_BYTES_MAX: Final = 103


def session(app_name: str = "semel", master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Any:
    """The running Spark session, or a new one with semel's format registered.

    ``conf`` wins over the defaults here. Sets JAVA_HOME (when Spark is not running yet) and PYSPARK_PYTHON:
    Spark's workers would otherwise be the PATH's ``python3``, which may lack this package.
    """
    from pyspark.sql import SparkSession

    from semel.spark.format import SemelDataSource

    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_home())
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
        # A driver that is killed while Spark writes the first entry of its checkpoint leaves a temporary file,
        # and with this check Spark would never start the query again.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        **_unix_sockets(tempfile.gettempdir()),
        **(conf or {}),
    }
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(SemelDataSource)
    return spark


def _unix_sockets(folder: str) -> dict[str, str]:
    """Unix sockets between JVM and Python: over TCP, small writes wait for acknowledgements that are delayed.

    Not in a folder whose name is too long for one: Spark would fail with "AF_UNIX path too long".
    """
    fits = len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES_MAX
    enabled = {"spark.python.unix.domain.socket.enabled": str(fits).lower()}
    return enabled | ({"spark.python.unix.domain.socket.dir": folder} if fits else {})
