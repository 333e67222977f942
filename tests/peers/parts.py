"""The real parts that tests and benchmarks set semel beside, and where this machine has them.

A part that is absent is a value with its reason, so that each caller can skip, fail or leave out one section,
and say the same words.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "jars"
JAVA_VERSION_MIN = 17  # Apache Kafka 4's own bound


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that this machine lacks: what could not run, why, and what brings it."""

    part: str
    why: str

    def __str__(self) -> str:
        return f"{self.part} not run: {self.why}"


@cache
def find_java() -> Path | Missing:
    """A Java runtime that Kafka's tools accept, from the PATH."""
    java = shutil.which("java")
    if java is None:
        return Missing("Kafka's Java tools", "no java on the PATH (tools/install_parts.sh installs it)")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        return Missing("Kafka's Java tools", f"{java} is not Java {JAVA_VERSION_MIN} or newer")
    return Path(java)


def find_kafka_jars() -> Path | Missing:
    """The folder with Apache Kafka's jars."""
    return _jars("kafka", "Apache Kafka")


def find_kafka_streams_jars() -> Path | Missing:
    """The folder with what Kafka Streams has besides Apache Kafka's jars."""
    return _jars("kafka-streams", "Kafka Streams")


def find_pyspark_jars() -> Path | Missing:
    """The folder with the jars in pyspark's wheel, ZooKeeper's among them."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return Missing("ZooKeeper", "pyspark, whose wheel has its jars, is not installed")
    return Path(pyspark.origin).parent / "jars"


def find_spark_connector_jars() -> Path | Missing:
    """The folder with Spark's own Kafka connector."""
    return _jars("spark-connector", "Spark's Kafka connector")


def find_older_pyspark() -> Path | Missing:
    """The folder to put on PYTHONPATH for the oldest PySpark that the format runs on."""
    folder = ROOT / ".cache" / "pyspark-4.2"
    if not (folder / "lock.txt").is_file():
        return Missing(
            "PySpark 4.2", "it is not in .cache/pyspark-4.2 (tools/install_parts.sh thorough installs it)"
        )
    return folder


def find_kafkajs() -> Path | Missing:
    """The folder with kafkajs, for NODE_PATH."""
    modules = ROOT / ".cache" / "kafkajs" / "node_modules"
    if shutil.which("node") is None:
        return Missing("kafkajs", "no node on the PATH (tools/install_parts.sh thorough installs it)")
    if not (modules / "kafkajs").is_dir():
        return Missing("kafkajs", "it is not in .cache/kafkajs (tools/install_parts.sh thorough installs it)")
    return modules


def find_franz_go() -> Path | Missing:
    """The program over franz-go that is a member of a group, or is driven."""
    member = ROOT / ".cache" / "franz-go" / "member"
    if not member.is_file():
        return Missing("franz-go", "it is not in .cache/franz-go (tools/install_parts.sh thorough builds it)")
    return member


def find_kcat() -> Path | Missing:
    """The kcat program."""
    kcat = shutil.which("kcat")
    if kcat is None:
        return Missing("kcat", "no kcat on the PATH (tools/install_parts.sh thorough installs it)")
    return Path(kcat)


def _jars(folder: str, part: str) -> Path | Missing:
    jars = JARS / folder
    if not (jars / ".pom-sha256").is_file():
        return Missing(part, f"its jars are not in .cache/jars (python tools/fetch_java.py {folder})")
    return jars
