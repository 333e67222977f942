"""Every test: the small ones side by side, then those with a JVM two by two, then the rest one at a time.

    python tools/run_tests.py [--thorough] [pytest's options]

``--thorough``: every case, too, of rows of like ones of which it leaves most out (marked ``thorough``).

Each part runs whatever the ones before it found. The files that took the longest, what failed in any, and what this
machine could not run and why, stand once more at the end, above the one line that counts all.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

# More processes than two cores: small tests wait as long as they work. Of a JVM's start that is not so, of the
# test behind it that is; and each process that needs Apache Kafka or Spark starts its own.
SMALL_PROCESSES: Final = 4
JVM_PROCESSES: Final = 2
PARTS: Final = (
    ("not jvm and not alone", "-n", str(SMALL_PROCESSES), "--dist", "worksteal"),
    ("jvm and not alone", "-n", str(JVM_PROCESSES), "--dist", "worksteal"),
    ("alone",),
)
WHY_CHARS_MAX: Final = 400
SLOWEST: Final = 15
THOROUGH: Final = "--thorough"
KINDS: Final = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def main() -> int:
    counts: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    exit_code = 0
    options = [option for option in sys.argv[1:] if option != THOROUGH]
    left_out = "" if THOROUGH in sys.argv else " and not thorough"
    for marks, *how in PARTS:
        part = ["-m", f"{marks}{left_out}", *how]
        failed_before = counts["failed"]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", *part, f"--junit-xml={report}", *options]
            ended = subprocess.run(command, check=False).returncode
            if report.is_file():
                add(report, counts, notes, seconds)
            if ended and counts["failed"] == failed_before:
                notes[f"FAILED {' '.join(part)}: pytest ended with exit code {ended}"] += 1
                counts["failed"] += 1
            exit_code = exit_code or ended
    sys.stdout.writelines(f"{spent:6.0f} s in {name}\n" for name, spent in seconds.most_common(SLOWEST))
    sys.stdout.writelines(
        f"{note}{f' ({count} tests)' if count > 1 else ''}\n" for note, count in notes.items()
    )
    sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return exit_code


def add(report: Path, counts: Counter[str], notes: Counter[str], seconds: Counter[str]) -> None:
    """Count what is in ``report``, note what did not pass, and how long each file took."""
    for case in ElementTree.parse(report).iter("testcase"):
        found = [child for child in case if child.tag in KINDS]
        seconds[case.get("classname", "")] += float(case.get("time", 0))
        counts[KINDS[found[0].tag] if found else "passed"] += 1
        for child in found:
            name = f"{case.get('classname')}::{case.get('name')}"
            why = " ".join(child.get("message", "").split())
            notes[why if child.tag == "skipped" else f"FAILED {name}: {why[:WHY_CHARS_MAX]}"] += 1


if __name__ == "__main__":
    sys.exit(main())
