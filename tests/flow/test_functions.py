"""What is read off a user's function: its columns, and a version that changes with its code and with nothing else."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from semel.flow.functions import version_of


@pytest.fixture
def versions(tmp_path: Path) -> Callable[..., list[str]]:
    """``versions(source, ...)``: of the function ``f`` of each source, read from a file, by another Python process."""

    def of(*sources: str) -> list[str]:
        program = ["import runpy", "from semel.flow.functions import version_of"]
        for number, source in enumerate(sources):
            path = tmp_path / f"source{number}.py"
            path.write_text(textwrap.dedent(source))
            program.append(f"print(version_of(runpy.run_path({str(path)!r})['f']))")
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(program)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    return of


@pytest.mark.slow
def test_layout_comments_and_docstrings_are_no_change(versions: Callable[..., list[str]]) -> None:
    found = versions(
        """
        def f(row):
            return row.a + 1
        """,
        '''
        # moved down


        def f(row):
            """What it does."""
            return (row.a
                    + 1)  # said otherwise
        ''',
    )
    assert len(set(found)) == 1


@pytest.mark.slow
def test_code_defaults_closures_and_arguments_are(versions: Callable[..., list[str]]) -> None:
    found = versions(
        "def f(row):\n    return row.a + 1",
        "def f(row):\n    return row.a + 2",
        "def f(row, n=2):\n    return row.a + n",
        "def f(row, n=3):\n    return row.a + n",
        "def of(n):\n    def f(row):\n        return row.a + n\n    return f\nf = of(1)",
        "def of(n):\n    def f(row):\n        return row.a + n\n    return f\nf = of(2)",
        "import functools\ndef g(n, row):\n    return row.a + n\nf = functools.partial(g, 1)",
        "import functools\ndef g(n, row):\n    return row.a + n\nf = functools.partial(g, 2)",
        "class C:\n    def __init__(self, n): self.n = n\n    def __call__(self, row): return row.a + self.n\nf = C(1)",
        "class C:\n    def __init__(self, n): self.n = n\n    def __call__(self, row): return row.a + self.n\nf = C(2)",
        "class C:\n    def __init__(self, n): self.n = n\n    def __call__(self, row): return row.a - self.n\nf = C(2)",
        "f = lambda row: row.a",
        "f = lambda row: row.b",
        "f = lambda row: lambda: row.b",
        "f = (lambda row: lambda: row.b)(1)",
        "f = str",
        "f = len",
        "class A:\n    def __init__(self, row): self.a = row\nf = A",
        "class A:\n    def __init__(self, row): self.b = row\nf = A",
    )
    assert len(set(found)) == len(found)


@pytest.mark.slow
def test_lambdas_of_one_line_are_told_apart_and_what_stands_beside_them_does_not_count(
    versions: Callable[..., list[str]],
) -> None:
    first, second, alone, wrapped = versions(
        "fs = [lambda r: r.a or None, lambda r: r.b]; f = fs[0]",
        "fs = [lambda r: r.a or None, lambda r: r.b]; f = fs[1]",
        "f = lambda r: r.b",
        "f = (\n    lambda r:\n    r.b\n)",
    )
    assert first != second == alone == wrapped


def test_where_there_is_no_source_the_compiled_code_counts() -> None:
    def of(text: str) -> str:
        space: dict[str, Any] = {}
        exec(text, space)
        return version_of(space["f"])

    assert of("def f(row): return row.a") == of("def f(row): return row.a")
    assert of("def f(row): return row.a") != of("def f(row): return row.b")
    assert of("def f(row): return [r for r in row]") != of("def f(row): return {r for r in row}")


def test_methods_and_builtins_have_versions() -> None:
    class Holder:
        def method(self, row: Any) -> Any:
            return row

    functions: list[Callable[..., Any]] = [Holder().method, str.upper, functools.partial(int, base=16), print]
    assert len({version_of(function) for function in functions}) == len(functions)


def _recursive(row: Any) -> Iterable[Any]:
    return _recursive(row)


def test_a_function_that_holds_itself_ends() -> None:
    def outer() -> Any:
        def inner(row: Any) -> Any:
            return inner(row)

        return inner

    assert version_of(outer()) == version_of(outer())
    assert version_of(_recursive)
