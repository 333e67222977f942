"""What the language reads off a user's function: the columns that it says it returns, and the version of its code.

The version is a hash of the function's syntax, not of its bytes: comments, docstrings and layout do not change it, and
neither does another version of Python. Values that a closure or a default holds count where they are plain (numbers,
text, truth values, and tuples of them). What the function calls does not count: it is not followed.
"""

from __future__ import annotations

import ast
import collections.abc
import functools
import hashlib
import linecache
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

from semel.core.flow.functions import annotations_of
from semel.core.flow.schema import Schema, schema_of
from semel.errors import ConfigError

VERSION_CHARS: Final = 16
_SEVERAL: Final = (
    list,
    set,
    tuple,
    *(
        getattr(collections.abc, name)
        for name in ("Iterable", "Iterator", "Generator", "Sequence", "Collection")
    ),
)
_PLAIN: Final = (bool, int, float, str, bytes, type(None))


def returned_schema(function: Callable[..., Any]) -> Schema | None:
    """Of the one row that it says it returns; ``None`` where it says nothing, or no class of columns."""
    return _schema(annotations_of(function).get("return"))


def returned_rows_schema(function: Callable[..., Any]) -> Schema | None:
    """Of each of the rows that it says it returns: ``list[Row]``, ``Iterator[Row]``, ``Row | None``."""
    return _schema(_element(annotations_of(function).get("return")))


def folded_rows_schema(function: Callable[..., Any]) -> Schema | None:
    """Of each of the rows that a fold says it returns: those of ``tuple[State, rows]``."""
    returned = annotations_of(function).get("return")
    parts = typing.get_args(returned)
    if typing.get_origin(returned) is not tuple or len(parts) != 2 or parts[1] is Ellipsis:
        return None
    return _schema(_element(parts[1]))


def version_of(function: Callable[..., Any]) -> str:
    """Another one where the function's code has changed."""
    text = "\n".join(_texts(function, depth_left=8))
    return hashlib.sha256(text.encode()).hexdigest()[:VERSION_CHARS]


# --- what it returns --------------------------------------------------------------------------------------


def _schema(hint: Any) -> Schema | None:
    hint = _without_none(hint)
    if not isinstance(hint, type) or hint.__module__ == "builtins":
        return None
    try:
        return schema_of(hint)
    except ConfigError:  # a class, but not one of flat columns: its rows can be written, and not looked into
        return None


def _element(hint: Any) -> Any:
    hint = _without_none(hint)
    if typing.get_origin(hint) in _SEVERAL:
        arguments = typing.get_args(hint)
        return arguments[0] if arguments else None
    return hint


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        left = [part for part in typing.get_args(hint) if part is not type(None)]
        return left[0] if len(left) == 1 else None
    return hint


# --- its code ---------------------------------------------------------------------------------------------


def _texts(function: Any, depth_left: int) -> Iterator[str]:
    if depth_left == 0 or function is None:
        return
    if isinstance(function, functools.partial):
        yield f"partial {_plain(function.args)} {_plain(tuple(sorted(function.keywords.items())))}"
        yield from _texts(function.func, depth_left - 1)
        return
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        yield _source(code) or _code_text(code)
        yield _plain(getattr(function, "__defaults__", None))
        for name, cell in zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False):
            yield f"{name}={_cell(cell, depth_left)}"
        return
    if getattr(function, "__module__", None) == "builtins":
        yield str(getattr(function, "__qualname__", function))
        return
    kind = function if isinstance(function, type) else type(function)
    yield kind.__qualname__
    yield from _texts(
        vars(kind).get("__init__" if isinstance(function, type) else "__call__"), depth_left - 1
    )
    if not isinstance(function, type):
        yield _plain(tuple(sorted(getattr(function, "__dict__", {}).items())))


def _cell(cell: types.CellType, depth_left: int) -> str:
    try:
        value = cell.cell_contents
    except ValueError:  # not filled yet
        return ""
    if isinstance(value, types.FunctionType):
        return " ".join(_texts(value, depth_left - 1))
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({','.join(map(_plain, value))})"
    return repr(value) if isinstance(value, _PLAIN) else ""


def _source(code: types.CodeType) -> str | None:
    """The function's syntax, without comments, layout and docstring."""
    nodes = _functions_of(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    found = [node for node in nodes if _first_line(node) == code.co_firstlineno and _fits(node, code)]
    # Of lambdas within each other the innermost that holds all of the code is meant.
    found.sort(key=lambda node: len(ast.unparse(node)))
    return ast.unparse(_without_docstring(found[0])) if found else None


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@functools.lru_cache(maxsize=64)
def _functions_of(file: str, source: str) -> list[_Function]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, _Function)]


def _first_line(node: _Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _fits(node: _Function, code: types.CodeType) -> bool:
    """Whether the code lies within the node; several lambdas may begin in one line."""
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    if code.co_name != "<lambda>":
        return False
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column
    ]
    return bool(places) and all(first <= begin and end <= last for begin, end in places)


def _without_docstring(node: _Function) -> _Function:
    if isinstance(node, ast.Lambda) or ast.get_docstring(node, clean=False) is None:
        return node
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, ast.FunctionDef | ast.AsyncFunctionDef)
    copy.body = copy.body[1:] or [ast.Pass()]
    return copy


def _code_text(code: types.CodeType) -> str:
    """Where there is no source, as in an interpreter's first lines: what the compiler made of it."""
    parts = [code.co_code.hex(), *code.co_names, *code.co_varnames]
    parts += [
        _code_text(part) if isinstance(part, types.CodeType) else _plain(part) for part in code.co_consts
    ]
    return " ".join(parts)
