"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from tests.peers.parts import Missing, find_java, find_kafka_jars, find_spark_connector_jars

ROOT = Path(__file__).resolve().parents[1]


def describe() -> dict[str, str]:
    """Machine and versions, by their names in the page."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "processor": f"{_cpu_model()}, {os.cpu_count()} cores",
        "memory": f"{memory_gb:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, pyarrow {version('pyarrow')}, uvloop {version('uvloop')}",
        "Java": _java(),
        "semel": f"{version('semel')}, commit {_commit()}",
        "Apache Kafka": _jar_version(find_kafka_jars(), "kafka_2.13"),
        "Spark": f"PySpark {version('pyspark')}, Kafka connector "
        + _jar_version(find_spark_connector_jars(), "spark-sql-kafka-0-10_2.13"),
    }


def _cpu_model() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _java() -> str:
    java = find_java()
    if isinstance(java, Missing):
        return str(java)
    return subprocess.run([java, "-version"], capture_output=True, text=True).stderr.splitlines()[1]


def _commit() -> str:
    """The commit, and whether anything was changed since: but for what a run itself writes."""
    commit = _git("describe", "--always", "--exclude=*") or "unknown"
    changed = _git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        ":!bench/RESULTS.md",
        ":!bench/results.json",
    )
    return f"{commit}, changed" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _jar_version(jars: Path | Missing, name: str) -> str:
    if isinstance(jars, Missing):
        return str(jars)
    return ", ".join(jar.stem.removeprefix(f"{name}-") for jar in jars.glob(f"{name}-[0-9]*.jar"))
