"""Every test is of a part, and the report tells what was green of which sources."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.thorough import PARTS, Part, is_green, table

from tools import thorough

TESTS = Path(__file__).parents[1]


JVM = re.compile(r"mark\.(kafka|spark|zookeeper)")


def places(*, with_jvm: bool) -> set[str]:
    """Folders of ``tests`` that hold tests, or such as need a JVM, and test files that lie there directly."""
    return {
        f"tests/{path.relative_to(TESTS).parts[0]}"
        for path in TESTS.rglob("test_*.py")
        if not with_jvm or JVM.search(path.read_text())
    }


@pytest.mark.parametrize("with_jvm", [False, True])
def test_every_test_is_of_a_part(with_jvm: bool) -> None:
    in_parts = {name for part in PARTS.values() if part.is_with_jvm == with_jvm for name in part.tests}
    assert places(with_jvm=with_jvm) - in_parts == set()


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A repository with one part; ``change(text)`` commits another state of its source."""
    monkeypatch.setattr(thorough, "ROOT", tmp_path)
    monkeypatch.setattr(thorough, "REPORT", tmp_path / "tests" / "thorough.json")
    monkeypatch.setattr(thorough, "PARTS", {"one": Part(("tests/mine",), workers=1)})
    (tmp_path / "tests" / "mine").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    jvm\n    thorough\n")
    (tmp_path / "tests" / "conftest.py").write_text(
        "import hypothesis\nhypothesis.settings.register_profile('thorough')\n"
    )
    (tmp_path / "tests" / "mine" / "test_source.py").write_text(
        "import pathlib\ndef test_it(): assert pathlib.Path('src/it').read_text() != 'broken'\n"
    )

    def git(*arguments: str) -> None:
        whoever = ("-c", "user.name=A Tester", "-c", "user.email=tester@localhost")
        subprocess.run(["git", *whoever, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def change(text: str) -> None:
        (tmp_path / "src" / "it").write_text(text)
        git("add", "src", "tests", "pytest.ini", ".gitignore")
        git("commit", "-m", text)

    git("init")
    change("first")
    return change


@pytest.mark.slow
def test_a_part_is_green_until_its_sources_change(change: Callable[[str], None]) -> None:
    assert list(table()) == ["one          never green"]
    assert thorough.main([]) == 0
    assert is_green("one")
    (line,) = table()
    assert line.endswith("1 passed  (green)")
    change("second")
    assert not is_green("one")
    (line,) = table()
    assert line.endswith("(its sources have changed since)")
    assert thorough.main(["report"]) == 1


def test_a_part_depends_on_all_but_test_files_of_others_and_prose() -> None:
    part = Part(("tests/sim",))
    its = (
        "src/semel/sequence.py",
        "tests/sim/test_x.py",
        "tests/thinning.py",
        "tests/spark/mortal.py",
        "README.md",
        "docs/proof.md",
    )
    others = ("tests/spark/test_x.py", "tests/test_x.py", "CHANGELOG.md", "tests/thorough.json")
    assert [path for path in (*its, *others) if part.depends_on(path)] == list(its)
    assert not Part(("tests/spark",)).depends_on("docs/proof.md")


@pytest.mark.slow
def test_a_part_that_fails_stays_what_it_was(change: Callable[[str], None]) -> None:
    change("broken")
    assert thorough.main(["one"]) == 1
    assert not thorough.REPORT.exists()


@pytest.mark.slow
def test_what_is_not_committed_is_not_written_down(
    change: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    (thorough.ROOT / "src" / "it").write_text("not committed")
    assert thorough.main(["one"]) == 0
    assert "its sources are not committed" in capfd.readouterr().out
    assert not thorough.REPORT.exists()


def test_a_part_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert thorough.main(["everything"]) == 2
    assert "no part everything; there are: core," in capsys.readouterr().err


def test_the_report_is_of_parts_that_there_are() -> None:
    report = json.loads(thorough.REPORT.read_text()) if thorough.REPORT.exists() else {}
    assert report.keys() <= PARTS.keys()
