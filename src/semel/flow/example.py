"""The file that ``semel flow init`` writes: a flow that runs as it is, with its test."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Final

SOURCE_TOPIC: Final = "lines"
OUTPUT_TOPIC: Final = "word-counts"

_TEXT: Final = Template('''"""Counts the words of lines.

    semel flow check $file       does it make sense? needs no server
    semel flow explain $file     its stages, its topics, and why
    semel flow test $file        the tests below, with a log of their own
    semel flow run $file -b localhost:9092
"""

from dataclasses import dataclass

from semel.flow import source


@dataclass
class Word:  # a row: its fields are the columns
    word: str


def words_of(row) -> list[Word]:  # what a function returns says its columns
    return [Word(word) for word in (row.line or "").lower().split()]


# JSON objects with a column "line"; a value that is none goes to the topic "$output.bad".
lines = source("$source", json="line string")

counts = (
    lines.flat_map(words_of)  # Python on rows; .where("...") and .select("...") are Spark's
    .key_by("word")  # all rows of a word come together, through a topic of the flow's own
    .count()  # has a state for each word; its input is recorded, so that a replay counts the same
    .to("$output")
)


def test_words_are_counted(run):  # ask for `semel_flow` instead, and pytest runs it as well
    """`run` puts rows into the sources, runs the flow to its end, and gives what it wrote, by topic."""
    rows = run(counts, {"$source": [{"line": "to be or not"}, {"line": "To be"}, "no JSON"]})
    last = rows.last("$output", "word")  # of each word; rows["$output"] has all
    assert {word: row["count"] for word, row in last.items()} == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert [bad.value for bad in rows.bad] == [b"no JSON"]
''')


def example_text(path: Path) -> str:
    """The example, with its commands for a file at ``path``."""
    return _TEXT.substitute(file=path, source=SOURCE_TOPIC, output=OUTPUT_TOPIC)
