"""How commands print: rows as a table, JSON or YAML on stdout; notes and errors on stderr.

JSON is one document (a list for many rows), YAML is the same document; both keep numbers as numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

EXIT_INTERRUPTED: Final = 130

Row = dict[str, Any]


class Format(StrEnum):
    """Shapes of printed data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def note(text: str) -> None:
    """One line for the person at the terminal; never data."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def print_rows(rows: Sequence[Row], columns: Sequence[str], shape: Format) -> None:
    """Print ``rows``; ``columns`` name and order the table's, and are all that it shows."""
    if shape is not Format.TABLE:
        print_document(list(rows), shape)
        return
    cells = [[column.upper().replace("_", "-") for column in columns]]
    cells += [[_cell(row.get(column)) for column in columns] for row in rows]
    numeric = [all(isinstance(row.get(column), int) for row in rows) and bool(rows) for column in columns]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def print_document(document: Any, shape: Format) -> None:
    """Print one value as JSON or YAML; as a table, a mapping becomes two columns."""
    if shape is Format.JSON:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    elif shape is Format.YAML:
        sys.stdout.write("\n".join(yaml_lines(document)) + "\n")
    elif isinstance(document, dict):
        width = max((len(name) for name in document), default=0)
        for name, value in document.items():
            sys.stdout.write(f"{name.replace('_', '-').ljust(width)}  {_cell(value)}\n")
    else:
        sys.stdout.write(_cell(document) + "\n")


def yaml_lines(value: Any, indent: int = 0) -> list[str]:
    """YAML for what JSON can say: block style outside, scalars quoted as JSON (a subset of YAML) inside."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for name, item in value.items():
            lines += _entry(f"{pad}{_scalar(name)}:", item, indent)
        return lines
    if isinstance(value, list | tuple) and value:
        lines = []
        for item in value:
            inner = yaml_lines(item, indent + 1)
            lines += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [pad + _scalar(value)]


def _entry(head: str, item: Any, indent: int) -> Iterable[str]:
    if isinstance(item, dict | list | tuple) and item:
        return [head, *yaml_lines(item, indent + 1)]
    return [f"{head} {_scalar(item)}"]


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and value.isidentifier() and value.lower() not in _YAML_WORDS
    return value if plain else json.dumps(value, ensure_ascii=False)


# Bare words that YAML 1.1 readers take for something other than a string.
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ",".join(f"{name}={_cell(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ",".join(map(_cell, value)) or "-"
    return str(value)
