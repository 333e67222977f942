"""Options that several commands share, so that one letter means one thing everywhere."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
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

DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        "--dead-letter",
        metavar="TOPIC",
        help="Go past batches that cannot be read, and keep their bytes in this topic.",
        show_default=False,
    ),
]

Internal = Annotated[
    bool, typer.Option("--internal", help="Also a topic that is not for people, as __semel_sinks.")
]

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)


def refuse_internal(topic: str, is_asked_for: bool) -> None:
    """What others keep their state in is made and written by them: a line in between may stop them."""
    from semel.core.log.names import INTERNAL_TOPICS
    from semel.types import SINKS_TOPIC

    if not is_asked_for and topic in {*INTERNAL_TOPICS, SINKS_TOPIC}:
        raise ConfigError(
            f"{topic} is an internal topic: what keeps its state there makes it and writes it. Nothing was done; say "
            f"--internal to do it all the same"
        )


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``name=value`` arguments as a mapping; the last of a name wins."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{option} {text!r} is not NAME=VALUE")
        found[name.strip()] = value
    return found


def client_settings(overrides: Iterable[str] | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """``-X linger.ms=20`` as the keyword that a class of the client takes; an unknown name is refused.

    ``known`` gives each keyword's default: where that is a number, the value has to be one.
    """
    settings: dict[str, Any] = {}
    names = sorted(known)
    for name, value in pairs(overrides or (), "-X").items():
        keyword = name.replace(".", "_").replace("-", "_")
        if keyword not in names:
            near = difflib.get_close_matches(keyword, names, n=1)
            raise ConfigError(
                f"-X: unknown setting {name!r}: "
                + (f"did you mean {dotted(near[0])!r}?" if near else f"use {', '.join(map(dotted, names))}")
            )
        settings[keyword] = _plain(value)
        if type(known[keyword]) is int and type(settings[keyword]) is not int:
            raise ConfigError(f"-X: {name}={value} is not a whole number")
    return settings


def dotted(keyword: str) -> str:
    """A keyword as the documentation writes it behind ``-X``."""
    return keyword.replace("_", ".")


def _plain(text: str) -> int | bool | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text)
