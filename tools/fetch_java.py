"""Fetch the Java parts that tests and benchmarks set semel beside: Apache Kafka and its Streams, Spark's Kafka
connector.

``python tools/fetch_java.py [kafka] [kafka-streams] [spark-connector]`` copies each part's jars to
``.cache/jars/<part>/`` with Maven, from whatever repositories Maven is set up for; the versions are pinned in
``tools/java/``. A part that is already there in the pinned versions costs nothing. Nothing here is needed to use semel.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".cache" / "jars"
PARTS = ("kafka", "kafka-streams", "spark-connector")


def is_fetched(part: str) -> bool:
    """Whether the jars of ``part`` are there, whole, and of the versions that its POM pins."""
    stamp = JARS / part / ".pom-sha256"
    return stamp.is_file() and stamp.read_text() == _pom_digest(part)


def fetch(part: str) -> None:
    """Copy the jars of ``part`` into place; the stamp is written last, so a broken fetch is seen as one."""
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit(f"{part} not fetched: Maven is missing (on Debian: apt-get install maven)")
    folder = JARS / part
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [
        maven,
        *("--batch-mode", "--quiet", "--file", str(_pom(part))),
        "dependency:copy-dependencies",
        *("-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
    ]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"{part} not fetched: Maven failed (its messages are above)")
    (folder / ".pom-sha256").write_text(_pom_digest(part))


def _pom(part: str) -> Path:
    return ROOT / "tools" / "java" / part / "pom.xml"


def _pom_digest(part: str) -> str:
    return hashlib.sha256(_pom(part).read_bytes()).hexdigest()


def main() -> None:
    parts = sys.argv[1:] or PARTS
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    for part in parts:
        if not is_fetched(part):
            fetch(part)
        sys.stdout.write(f"{part}: {len(list((JARS / part).glob('*.jar')))} jars in {JARS / part}\n")


if __name__ == "__main__":
    main()
