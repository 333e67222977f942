"""Make what Spark starts faster with, in ``.cache/spark``; the tests use it where it is.

``home`` is the folder of the installed PySpark without the archive of its own sources: Spark puts that in front of the
path of its processes of Python, and each of them would compile anew what it imports. ``classes.jsa`` has the classes
that a driver loads, ready for the JVM, which looks by itself whether they are those of its jars.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / ".cache" / "spark"
HOME: Final = FOLDER / "home"
CLASSES: Final = FOLDER / "classes.jsa"
LINKED: Final = ("bin", "jars")
# Spark's JVMs live for seconds in tests: the second compiler and a parallel collector would double what they take of
# a processor. Every launcher of Java reads this, of drivers, of executors and of what a test starts by itself.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET: Final = "-Xlog:disable"  # a JVM that the classes do not fit would say so in its output


def use() -> None:
    """Have every Spark and every JVM that this process and its children start do so quickly."""
    options = JAVA_OPTIONS
    if _is_made():
        os.environ.setdefault("SPARK_HOME", str(HOME))
        options += f" -XX:SharedArchiveFile={CLASSES} {_QUIET}"
    os.environ.setdefault("JDK_JAVA_OPTIONS", options)


def make() -> None:
    """Anew, unless it is there already for this PySpark and this Java."""
    if _is_made():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    HOME.mkdir(parents=True)
    for name in LINKED:
        (HOME / name).symlink_to(_pyspark() / name)
    unfinished = CLASSES.with_suffix(".unfinished")
    options = f"{JAVA_OPTIONS} {_QUIET}"
    environment = os.environ | {"SPARK_HOME": str(HOME), "JDK_JAVA_OPTIONS": options}
    command = [sys.executable, __file__, str(unfinished)]
    subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=True)
    unfinished.replace(CLASSES)
    (FOLDER / "of").write_text(_of())


def _is_made() -> bool:
    made = FOLDER / "of"
    return made.is_file() and made.read_text() == _of()


def _of() -> str:
    from semel.spark.java import java_home

    return f"{_pyspark()} {version('pyspark')} {java_home()}\n"


def _pyspark() -> Path:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def _train(archive: str) -> None:
    """Live through what most drivers of the tests do; the JVM writes its classes down when it ends."""
    import semel
    from semel.spark import session

    options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    spark = session("quick", "local[2]", options)
    with tempfile.TemporaryDirectory() as folder, semel.LocalLog(Path(folder) / "log") as log:
        with semel.Admin(log.bootstrap) as admin:
            admin.create_topic("in", 2)
            admin.create_topic("out", 2)
        with semel.Producer(log.bootstrap) as producer:
            producer.send("in", b"row").result(30)
        given = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": "in"}
        rows = spark.readStream.format("semel").options(**given, startingOffsets="earliest").load()
        sink = {"kafka.bootstrap.servers": log.bootstrap, "topic": "out", "sinkId": "quick"}
        writer = rows.select("value").mapInArrow(lambda batches: batches, "value binary")
        writer = writer.writeStream.format("semel").options(**sink, checkpointLocation=f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        read = spark.read.format("semel").options(**given).load()
        assert read.groupBy("value").count().collect()[0]["count"] == 1
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # it ends by that
    java.wait()


if __name__ == "__main__":
    _train(*sys.argv[1:]) if sys.argv[1:] else make()
