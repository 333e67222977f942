"""Every test: the small ones side by side, then those with a JVM two by two, then the rest one at a time.

    python tools/run_tests.py [--thorough] [pytest's options]

``--thorough``: every case, too, of rows of like ones of which it leaves most out (marked ``thorough``).

What only computes, for minutes and in a time of its own (marked ``idle``), runs beside all of them, on what they leave
of the processors. Each part runs whatever the ones before it found. The files that took the longest, what failed in
any, and what this machine could not run and why, stand once more at the end, above the one line that counts all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

# More processes than two cores: small tests wait as long as they work. Of a JVM's start that is not so, of the
# test behind it that is; and each process that needs Apache Kafka or Spark starts its own.
SMALL_PROCESSES: Final = 4
JVM_PROCESSES: Final = 2
PARTS: Final = (
    ("not jvm and not alone and not idle", "-n", str(SMALL_PROCESSES), "--dist", "worksteal"),
    ("jvm and not alone and not idle", "-n", str(JVM_PROCESSES), "--dist", "worksteal"),
    ("alone and not idle",),
)
BESIDE: Final = ("idle",)
NICENESS: Final = 19  # of what runs beside: the others feel next to nothing of it
WHY_CHARS_MAX: Final = 400
SLOWEST: Final = 15
THOROUGH: Final = "--thorough"
KINDS: Final = {"failure": "failed", "error": "failed", "skipped": "skipped"}


@dataclass(slots=True)
class Found:
    """What the parts came to."""

    counts: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    exit_code: int = 0

    def add_part(self, part: list[str], ended: int, report: Path) -> None:
        failed_before = self.counts["failed"]
        if report.is_file():
            add(report, self.counts, self.notes, self.seconds)
        if ended and self.counts["failed"] == failed_before:
            self.notes[f"FAILED {' '.join(part)}: pytest ended with exit code {ended}"] += 1
            self.counts["failed"] += 1
        self.exit_code = self.exit_code or ended


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that every `finally` is run
    found = Found()
    options = [option for option in sys.argv[1:] if option != THOROUGH]
    left_out = "" if THOROUGH in sys.argv else " and not thorough"

    def command(part: list[str], report: Path) -> list[str]:
        return [sys.executable, "-m", "pytest", *part, f"--junit-xml={report}", *options]

    parts = [["-m", f"{marks}{left_out}", *how] for marks, *how in (*PARTS, BESIDE)]
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder) / f"{number}.xml" for number in range(len(parts))]
        said = Path(folder) / "beside.txt"
        with said.open("wb") as out:
            beside = subprocess.Popen(
                command(parts[-1], reports[-1]), stdout=out, stderr=out, preexec_fn=_let_others_go_first
            )
        try:
            for part, report in zip(parts[:-1], reports, strict=False):
                began_s = time.monotonic()
                ended = subprocess.run(command(part, report), check=False).returncode
                found.add_part(part, ended, report)
                sys.stdout.write(f"{time.monotonic() - began_s:6.0f} s for {' '.join(part)}\n")
                sys.stdout.flush()
            began_s = time.monotonic()
            ended = beside.wait()
        finally:
            with suppress(ProcessLookupError):  # also what it has started
                os.killpg(beside.pid, signal.SIGKILL)
            beside.wait()
        sys.stdout.write(said.read_text(errors="replace"))
        sys.stdout.write(f"{time.monotonic() - began_s:6.0f} s more for {' '.join(parts[-1])}\n")
        found.add_part(parts[-1], ended, reports[-1])
    sys.stdout.writelines(f"{spent:6.0f} s in {name}\n" for name, spent in found.seconds.most_common(SLOWEST))
    sys.stdout.writelines(
        f"{note}{f' ({count} tests)' if count > 1 else ''}\n" for note, count in found.notes.items()
    )
    counts = found.counts
    sys.stdout.write(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped\n")
    return found.exit_code


def _let_others_go_first() -> None:
    """In a session of its own: where Linux gives each session its share, that has a priority too."""
    os.setsid()
    os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


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
