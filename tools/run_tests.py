"""Every test: the small ones side by side, then, one at a time, those that fill the machine by themselves.

    python tools/run_tests.py [pytest's options]

The second half runs whatever the first one found. What failed in either, and what this machine could not run
and why, stands once more at the end, above the one line that counts all.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

PROCESSES: Final = 4  # more than two cores: small tests wait as long as they work
HALVES: Final = (
    ("-m", "not alone", "-n", str(PROCESSES), "--dist", "worksteal"),
    ("-m", "alone"),
)
KINDS: Final = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def main() -> int:
    counts: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    exit_code = 0
    for half in HALVES:
        failed_before = counts["failed"]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", *half, f"--junit-xml={report}", *sys.argv[1:]]
            ended = subprocess.run(command, check=False).returncode
            if report.is_file():
                add(report, counts, notes)
            if ended and counts["failed"] == failed_before:
                notes[f"FAILED {' '.join(half)}: pytest ended with exit code {ended}"] += 1
                counts["failed"] += 1
            exit_code = exit_code or ended
    sys.stdout.writelines(
        f"{note}{f' ({count} tests)' if count > 1 else ''}\n" for note, count in notes.items()
    )
    sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return exit_code


def add(report: Path, counts: Counter[str], notes: Counter[str]) -> None:
    """Count what is in ``report``, and note what did not pass."""
    for case in ElementTree.parse(report).iter("testcase"):
        found = [child for child in case if child.tag in KINDS]
        counts[KINDS[found[0].tag] if found else "passed"] += 1
        for child in found:
            name = f"{case.get('classname')}::{case.get('name')}"
            notes[child.get("message", "") if child.tag == "skipped" else f"FAILED {name}"] += 1


if __name__ == "__main__":
    sys.exit(main())
