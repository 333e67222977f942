"""Plain ``assert`` that says what it compared, in files that are run without pytest.

``assert left == right`` becomes a comparison of both, each evaluated once and in order, whose error shows them. Lines
stay where they are. What has a message of its own keeps it, in front.
"""

from __future__ import annotations

import ast
import difflib
import pprint
from typing import Any, Final

FAIL_NAME: Final = "@semel_assert"  # no name that anybody could write
_LEFT, _RIGHT = "@semel_left", "@semel_right"
_LINES_MAX: Final = 40
_WIDTH: Final = 100
_OPERATORS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}


def rewritten(source: bytes, file: str) -> ast.Module:
    """The file's syntax with its asserts changed; what runs it has :func:`failed` under :data:`FAIL_NAME`."""
    tree = ast.parse(source, file)
    changed = _Asserts().visit(tree)
    assert isinstance(changed, ast.Module)
    return ast.fix_missing_locations(changed)


class _Asserts(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> Any:
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return node
        left, right, operator = test.left, test.comparators[0], test.ops[0]
        statements: list[ast.stmt] = [
            ast.Assign([ast.Name(_LEFT, ast.Store())], left),
            ast.Assign([ast.Name(_RIGHT, ast.Store())], right),
        ]
        told = [ast.Name(_LEFT, ast.Load()), ast.Name(_RIGHT, ast.Load())]
        words: list[ast.expr] = [*told, ast.Constant(_OPERATORS[type(operator)])]
        call = ast.Call(
            ast.Name(FAIL_NAME, ast.Load()), words if node.msg is None else [*words, node.msg], keywords=[]
        )
        holds = ast.Compare(told[0], [operator], [told[1]])
        statements.append(ast.If(ast.UnaryOp(ast.Not(), holds), [ast.Raise(call)], []))
        for statement in statements:
            for each in ast.walk(statement):
                if not hasattr(each, "lineno"):
                    ast.copy_location(each, node)
        return statements


def failed(left: Any, right: Any, operator: str, message: Any = None) -> AssertionError:
    """The error of ``assert left <operator> right``."""
    head = "" if message is None else f"{message}\n"
    one, other = _pretty(left), _pretty(right)
    if operator != "==" or len(one) == len(other) == 1:
        shown = "\n".join([*one[:_LINES_MAX], f"{operator}", *other[:_LINES_MAX]])
        if len(one) == len(other) == 1:
            shown = f"{one[0]}\n    {operator} {other[0]}"
        return AssertionError(f"{head}{shown}")
    lines = [line for line in difflib.ndiff(other, one) if not line.startswith("?")]
    more = len(lines) - _LINES_MAX
    lines = lines[:_LINES_MAX] + ([f"... and {more} lines more"] if more > 0 else [])
    return AssertionError(head + "\n".join(["- as written behind ==   + as it is", *lines]))


def _pretty(value: Any) -> list[str]:
    text = pprint.pformat(value, width=_WIDTH, sort_dicts=False)
    if len(text.splitlines()) == 1 and isinstance(value, list | tuple | dict) and len(value) > 1:
        # One element a line, so that a difference is one line.
        if isinstance(value, dict):
            return ["{", *(f" {key!r}: {each!r}," for key, each in value.items()), "}"]
        return ["[", *(f" {each!r}," for each in value), "]"]
    return text.splitlines()
