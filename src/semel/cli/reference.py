"""The reference page of the commands, made from the commands: ``python -m semel.cli.reference > docs/cli.md``.

A test holds the page against this, so that it cannot drift.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import typer

from semel.cli.main import EPILOG, app


def page() -> str:
    """The whole page as Markdown."""
    root: Any = typer.main.get_command(app)
    head = [
        "# Commands",
        "",
        "Made from the code: `python -m semel.cli.reference > docs/cli.md`.",
        "",
        EPILOG,
        "",
        "`semel --version` shows the version; `semel --install-completion` teaches your shell commands and options, "
        "`--show-completion` prints what it would install. `-b` and `SEMEL_BOOTSTRAP` take `host:port`, several with "
        "commas between; without a port it is 9092.",
        "",
    ]
    return "\n".join([*head, *_commands(root, "semel")])


def _commands(command: Any, path: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from _commands(child, f"{path} {name}")
        return
    yield f"## `{path}`"
    yield ""
    text, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    yield text.strip()
    yield ""
    if example:
        yield from ("```sh", example.strip(), "```", "")
    rows = [(_names(parameter), parameter.help or "") for parameter in command.params if _names(parameter)]
    if rows:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{names}` | {text.replace('|', chr(92) + '|')} |" for names, text in rows)
        yield ""


def _names(parameter: Any) -> str:
    if "--help" in parameter.opts:
        return ""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name)
    return ", ".join([*parameter.opts, *parameter.secondary_opts]).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
