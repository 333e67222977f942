"""Numbers in messages, and what they say of what is not installed."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from semel.wording import INSTALL_LAND, INSTALL_SPARK, counted, one_line

ROOT = Path(__file__).parent.parent
SAID_IN = (
    "src/**/*.py",
    "docs/**/*.md",
    "examples/**/*.py",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_is_no_plural() -> None:
    assert [counted(count, "row") for count in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        ("no error ", "no error"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_an_error_on_one_line(error: object, line: str) -> None:
    assert one_line(error) == line


def package(requirement: str) -> str:
    return re.split(r"[\[<>=!~]", requirement)[0].strip()


def advised() -> dict[str, set[str]]:
    """By each package that texts say to install: where they do."""
    found: dict[str, set[str]] = {}
    for pattern in SAID_IN:
        for path in ROOT.glob(pattern):
            for line in path.read_text().splitlines():
                for said in re.findall(r"pip install ((?:(?:'[^']+'|[\w.=<>\[\]-]+) ?)+)", line):
                    for name in shlex.split(said):
                        found.setdefault(package(name), set()).add(path.name)
    return found


def test_nobody_is_sent_to_a_name_on_an_index_that_is_not_ours() -> None:
    """semel is on no index: there its name is anybody's. ``.[land]`` is the folder's own."""
    found = advised()
    assert {".", "deltalake", "pyspark"} <= found.keys()
    assert "semel" not in found, found["semel"]
    everywhere = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    assert [path.name for path in everywhere if re.search(r"\bsemel\[(land|spark)\]", path.read_text())] == []


@pytest.mark.parametrize(("text", "extra"), [(INSTALL_LAND, "land"), (INSTALL_SPARK, "spark")])
def test_what_is_said_to_be_installed_is_what_the_extra_has(text: str, extra: str) -> None:
    needed = {package(one): one for one in PROJECT["optional-dependencies"][extra]}
    said = {package(one): one for one in shlex.split(text.removeprefix("pip install "))}
    assert said.keys() <= needed.keys()
    if extra == "spark":
        assert said["pyspark"] == needed["pyspark"]
    else:
        assert said.keys() == needed.keys()
