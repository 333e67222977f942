"""``make thorough``: everything, a part at a time; ``tests/thorough.json`` says at which commit each was green last.

    python tools/thorough.py              # every part whose sources have changed since it was green
    python tools/thorough.py PART ...     # these, whatever the report says
    python tools/thorough.py report       # the table; exit code 1 while a part is not green on these sources

A run that was stopped goes on with the part that it was stopped in. A part that is green on sources that are not
committed says so, and is not written down. What this machine lacks fails here (``tools/install_parts.sh thorough``).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.run_tests import pytest_command

ROOT: Final = Path(__file__).resolve().parents[1]
REPORT: Final = ROOT / "tests" / "thorough.json"
_NO_SOURCES: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/thorough.json")
_OF_SIM: Final = (
    "docs/proof.md",
    "docs/simulated.md",
)  # pages with its seeds; of other tests one looks at their words


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run together, within 20 minutes on two cores."""

    tests: tuple[str, ...]
    marks: str = "not jvm"
    workers: int = 2

    @property
    def is_with_jvm(self) -> bool:
        """Whether it is what needs a JVM."""
        return "not jvm" not in self.marks

    def depends_on(self, path: str) -> bool:
        """Whether a change of ``path`` may change the outcome: of all files, but other parts' test files and pages."""
        if path in _OF_SIM:
            return "tests/sim" in self.tests
        is_test_file = path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")
        return path not in _NO_SOURCES and (not is_test_file or path.startswith(self.tests))


_FILES: Final = tuple(
    sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py"))
)
_CLIENTS: Final = ("tests/client", "tests/cli", "tests/audit")
_JOBS: Final = tuple(f"tests/{room}" for room in ("copy", "demo", "examples", "land", "spark"))
_KAFKA: Final = "jvm and not spark"
PARTS: Final = {
    "core": Part(("tests/core", "tests/record", "tests/wire", "tests/verdicts", "tests/bench", *_FILES)),
    "server": Part(("tests/server", "tests/local"), workers=1),  # some fill the machine
    "client": Part(_CLIENTS),
    "jobs": Part(_JOBS),
    "flow": Part(("tests/flow",)),
    "sim": Part(("tests/sim",), "not jvm and not thorough"),
    "seeds": Part(("tests/sim",), "not jvm and thorough"),  # and every planted bug
    "model": Part(("tests/tools",)),
    "loops": Part(("tests/loops",)),
    "peers": Part(("tests/peers",)),
    "kafka": Part((*_CLIENTS, *_JOBS, "tests/record", "tests/server", "tests/flow"), _KAFKA, workers=1),
    "kafka-peers": Part(("tests/peers", "tests/verdicts"), _KAFKA, workers=1),
    "kafka-loops": Part(("tests/loops",), _KAFKA, workers=1),
    "spark": Part(("tests/spark", *_FILES), "spark", workers=1),
    "spark-flow": Part(("tests/flow", "tests/audit"), "spark", workers=1),
    "spark-jobs": Part(("tests/land", "tests/demo", "tests/examples", "tests/peers"), "spark", workers=1),
    "spark-loops": Part(("tests/loops",), "spark", workers=1),
}


def main(arguments: list[str]) -> int:
    if unknown := set(arguments) - {*PARTS, "report"}:
        sys.stderr.write(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}, report\n")
        return 2
    if "report" not in arguments:
        asked = arguments or [name for name in PARTS if not is_green(name)]
        were_green = [run(name) for name in asked]
        if not all(were_green):
            return 1
    sys.stdout.writelines(f"{line}\n" for line in table())
    return 0 if arguments and "report" not in arguments else int(not all(map(is_green, PARTS)))


def run(name: str) -> bool:
    """One part; whether it is green, which is written down if its sources are committed."""
    part = PARTS[name]
    sources, began_s = digest(part), time.monotonic()
    sys.stdout.write(f"--- {name}: {' '.join(part.tests)}, {part.marks}\n")
    sys.stdout.flush()
    options = ("-p", "no:cacheprovider", "--hypothesis-profile", "thorough", *part.tests)
    summary = ""
    with subprocess.Popen(
        pytest_command(part.marks, *options, workers=part.workers),
        cwd=ROOT,
        env=os.environ | {"CI": "true"},
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            summary = line.strip() or summary
    if process.returncode:
        sys.stdout.write(f"--- {name}: FAILED\n")
        return False
    if not is_committed() or digest(part) != sources:
        sys.stdout.write(f"--- {name}: green, but not written down: its sources are not committed\n")
        return True
    report = read_report()
    report[name] = {
        "commit": _git("rev-parse", "HEAD").strip(),
        "sources": sources,
        "seconds": round(time.monotonic() - began_s),
        "summary": summary.partition(" in ")[0],
    }
    REPORT.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    return True


def table() -> Iterator[str]:
    """The report, a line each part."""
    report = read_report()
    for name in PARTS:
        if name not in report:
            yield f"{name:12} never green"
            continue
        last = report[name]
        state = "green" if is_green(name) else "its sources have changed since"
        yield f"{name:12} {last['commit'][:9]}  {last['seconds']:5} s  {last['summary']}  ({state})"


def is_green(name: str) -> bool:
    """Whether the part's sources are those of its last green run."""
    last = read_report().get(name)
    return last is not None and last["sources"] == digest(PARTS[name]) and is_committed()


def digest(part: Part) -> str:
    """Of all that HEAD has of the part's sources."""
    lines = _git("ls-tree", "-r", "HEAD").splitlines()
    sources = [line for line in lines if part.depends_on(line.partition("\t")[2])]
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


def is_committed() -> bool:
    """Whether the folder has all sources as HEAD has them."""
    return not _git("status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in _NO_SOURCES))


def read_report() -> dict[str, Any]:
    """Name of a part: what is known of its last green run."""
    report: dict[str, Any] = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    return report


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
