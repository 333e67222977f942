"""The page of the commands is what the commands say."""

from __future__ import annotations

from pathlib import Path

from semel.cli.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_has_not_drifted() -> None:
    assert PAGE.read_text() == page(), "run: python -m semel.cli.reference > docs/cli.md"


def test_every_command_has_an_example() -> None:
    sections = page().split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections if "```sh" not in section] == []
