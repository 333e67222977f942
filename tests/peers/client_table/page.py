"""``docs/clients.md``: the table, and what it says of one client. No result of it is written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.peers.client_table.features import FEATURES, OF_MEMBERS

_INTRO: Final = """\
# Which client can do what

Made by `python tools/make_clients.py`, which drives each client on a semel server and on Apache Kafka {kafka}; a test
drives them again and holds the table to what it sees. Each is driven as it is installed by itself, with its settings
at their defaults but for what the feature is. *yes*: it came out right, by what lies in the log or by what was there
to be read, not by what the client says. *no*: it did not; the note has the client's words, or what was wrong. *–*: it
has no such call. A cell is true of both servers, unless it names them.

What clients make of the verdicts that Apache Kafka gives seldom is [a page of its own](stock-clients.md), and so is
[what a group is](groups.md)."""

_MEMBERS: Final = """\
What is looked at of members of groups, and of what copies in transactions:
"""

_NO: Final = "no: "
_NOTED: Final = re.compile(r"no \((\d+)\)")


@dataclass(frozen=True, slots=True)
class Column:
    """A client, its version, and each feature's outcome on both."""

    name: str
    version: str
    on_semel: Mapping[str, str]
    on_kafka: Mapping[str, str]


def cell(on_semel: str, on_kafka: str) -> str:
    """One outcome where both have the same."""
    return on_semel if on_semel == on_kafka else f"semel: {on_semel}; Kafka: {on_kafka}"


def page(columns: Sequence[Column], kafka: str) -> str:
    """The whole page."""
    notes: dict[str, int] = {}

    def noted(name: str, outcome: str) -> str:
        if not outcome.startswith(_NO):
            return outcome
        note = f"{name}: {outcome.removeprefix(_NO)}"
        return f"no ({notes.setdefault(note, len(notes) + 1)})"

    def cell_of(one: Column, feature: str) -> str:
        return cell(noted(one.name, one.on_semel[feature]), noted(one.name, one.on_kafka[feature]))

    rows = [[feature, *(cell_of(one, feature) for one in columns)] for feature in FEATURES]
    head = ["", *(f"{one.name} {one.version}" for one in columns)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))
    listed = "\n".join(f"{number}. {note}" for note, number in notes.items())
    looked_at = "\n".join(f"- *{name}*: {what}" for name, what in OF_MEMBERS.items())
    return "\n\n".join([_INTRO.format(kafka=kafka), table, listed, _MEMBERS + looked_at]) + "\n"


def documented(text: str, name: str) -> dict[str, str]:
    """What the page says of a client, feature by feature, with its notes in their places."""
    notes = dict(re.findall(r"^(\d+)\. [^:]*: (.*)$", text, re.MULTILINE))
    lines = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    (number,) = [at for at, head in enumerate(lines[0]) if re.match(rf"{re.escape(name)} \d", head)]
    return {line[0]: _NOTED.sub(lambda note: f"no: {notes[note[1]]}", line[number]) for line in lines[2:]}


def on_semel(documented_cell: str) -> str:
    """Semel's part of a cell."""
    found = re.match(r"semel: (.*); Kafka: ", documented_cell)
    return found[1] if found else documented_cell
