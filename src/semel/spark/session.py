"""A Spark session that works on a fresh machine: Java found, workers on this interpreter, UTC."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from semel.errors import ConfigError
from semel.spark.java import java_home
from semel.spark.reasons import say_reason_last
from semel.spark.versions import unsupported

# Spark names a socket "/.<uuid>.sock" in its folder, and the system bounds the path: macOS at 103 bytes.
_SOCKET_NAME_BYTES: Final = 43
_SOCKET_PATH_BYTES_MAX: Final = 103


def session(app_name: str = "semel", master: str | None = None, conf: Mapping[str, str] | None = None) -> Any:
    """The running Spark session, or a new one, that knows semel's format.

    Without ``master`` it is what ``spark-submit`` or Spark's own files say, else ``local[*]``. ``conf`` wins over the
    defaults here, and so does ``spark-submit``. Sets JAVA_HOME (when Spark is not running yet) and PYSPARK_PYTHON:
    Spark's workers would otherwise be the PATH's ``python3``, which may lack this package.
    """
    _check_version()
    from pyspark.sql import SparkSession

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
    }
    submitted = _submitted()
    settings = {name: value for name, value in settings.items() if name not in submitted} | dict(conf or {})
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    say_reason_last()
    if not _is_found_by(spark):  # else Spark would warn, at each use, that its own finding is replaced
        register(spark)
    return spark


def register(spark: Any) -> None:
    """Make ``format("semel")`` known to a session of your own, whose Python workers will be this interpreter.

    For where Spark does not find the format by itself: it looks with the PATH's ``python3`` unless
    PYSPARK_PYTHON said otherwise when its JVM started, which in a venv that is not activated is another one,
    and it finds nothing at all once any package named ``pyspark_*`` fails to import.

    As with :func:`session`, a program that ends with an error of semel's says it once more, alone, as its last line.
    """
    _check_version()
    say_reason_last()
    from semel.spark.format import SemelDataSource

    if "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(SemelDataSource)


def _submitted() -> dict[str, str]:
    """What ``spark-submit`` was given; to ask Spark outside of it would start its JVM, without our settings."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # only then has a SparkConf what its JVM was started with
    return dict(SparkConf().getAll())


def _check_version() -> None:
    why_not = unsupported()
    if why_not is not None:
        raise ConfigError(why_not)


def _is_found_by(spark: Any) -> bool:
    """Whether Spark's own search, which runs in a worker, comes upon the format."""
    if spark.sparkContext.pythonExec != sys.executable or "PYSPARK_DRIVER_PYTHON" in os.environ:
        return False
    names = {module.name for module in iter_modules() if module.name.startswith("pyspark_")}
    try:
        for name in names:
            import_module(name)
    except Exception:  # whatever another package's import raises: Spark stops its search there
        return False
    return "pyspark_semel" in names


def _unix_sockets(folder: str) -> dict[str, str]:
    """Unix sockets between JVM and Python: over TCP, small writes wait for acknowledgements that are delayed.

    Not in a folder whose name is too long for one: Spark would fail with "AF_UNIX path too long".
    """
    fits = len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES_MAX
    enabled = {"spark.python.unix.domain.socket.enabled": str(fits).lower()}
    return enabled | ({"spark.python.unix.domain.socket.dir": folder} if fits else {})
