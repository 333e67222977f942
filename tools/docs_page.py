"""A page of docs/ that is made from the code: its tables, and the command that writes it or holds it to the code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write_or_check(name: str, text: str) -> int:
    """The exit code: with ``--check`` 1 if docs/``name`` is not ``text``, without it is written."""
    page = DOCS / name
    if "--check" in sys.argv[1:]:
        return int(page.read_text(encoding="utf-8") != text)
    page.write_text(text, encoding="utf-8")
    return 0
