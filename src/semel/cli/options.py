"""Options that several commands share, so that one letter means one thing everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from semel.cli.output import Format
from semel.errors import ConfigError

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", "-b", metavar="H:P", envvar="SEMEL_BOOTSTRAP", help="A server of the log."),
]
OutputFormat = Annotated[
    Format,
    typer.Option("--format", envvar="SEMEL_FORMAT", help="Shape of what is printed.", case_sensitive=False),
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", help="A setting by its full name; may be repeated."),
]

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``name=value`` arguments as a mapping; the last of a name wins."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{option} {text!r} is not NAME=VALUE")
        found[name.strip()] = value
    return found


def client_settings(overrides: Iterable[str] | None) -> dict[str, Any]:
    """``-X linger.ms=20`` as the keyword that the client's classes take; they refuse unknown names."""
    return {
        name.replace(".", "_").replace("-", "_"): _plain(value)
        for name, value in pairs(overrides or (), "-X").items()
    }


def _plain(text: str) -> int | bool | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text)
