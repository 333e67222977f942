"""Counts the words of lines: split, key, count. docs/examples/word_count.md has the picture."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from semel.flow import source


@dataclass
class Word:
    word: str


def words_of(row: Any) -> Iterator[Word]:
    for word in (row.line or "").lower().split():
        yield Word(word)


counts = source("lines", json="line string").flat_map(words_of).key_by("word").count().to("word-counts")


def test_words_are_counted(run: Any) -> None:
    rows = run(counts, {"lines": [{"line": "to be or not"}, {"line": "To be"}]})
    last = {row["word"]: row["count"] for row in rows["word-counts"]}
    assert last == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_line_without_words_counts_nothing(run: Any) -> None:
    assert run(counts, {"lines": [{"line": " "}, {"line": None}]})["word-counts"] == []
