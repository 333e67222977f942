"""Write docs/reference.md from the code: errors, served APIs, settings, Spark options.

python tools/make_reference.py            # write
python tools/make_reference.py --check    # exit 1 if the page is not what the code says
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from typing import Final

from docs_page import table, write_or_check

from semel import errors
from semel.client.consumer_settings import ConsumerSettings
from semel.client.settings import ProducerSettings
from semel.config import describe_settings
from semel.core.dynamic_config.broker import CHANGEABLE, KEPT, THROTTLES
from semel.core.dynamic_config.group import GROUP_SETTINGS
from semel.core.log.config import LogConfig, describe_config
from semel.core.log.described import TOPIC_SETTINGS
from semel.spark.option_names import IGNORED, OPTIONS, REFUSED, Side
from semel.wire.api import SERVED


def _plain(docstring: str) -> str:
    """In one line, and with Sphinx's roles as plain code."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(docstring.split()))


def _default_of(name: str) -> str:
    of_server = TOPIC_SETTINGS[name].server_name
    default = describe_config(LogConfig(), {})[name] if of_server is None else of_server
    return f"`{default}`" if default else ""


def _exceptions() -> list[tuple[str, str, str]]:
    found = [
        (name, value)
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.SemelError) and value is not errors.SemelError
    ]
    return [
        (
            f"`{name}`",
            ", ".join(f"`{base.__name__}`" for base in value.__bases__),
            _plain(value.__doc__ or ""),
        )
        for name, value in found
    ]


_DYNAMIC: Final = (
    "What is *dynamic* is also changed while the server runs, by AlterConfigs and IncrementalAlterConfigs of a broker, "
    "as by Apache Kafka (`kafka-configs --entity-type brokers`): by its id (`broker.id`), or for all brokers "
    "(`--entity-default`), which counts where the id has none. It goes before what the server was started with, "
    "counts at once, and stays, whatever ends the server; taking it back brings back what the server was started with. "
    "`max.connections` closes no connection that is there, and `log.cleaner.backoff.ms` counts from the next look on. "
    "What some topic could not have is refused. All others are read when the server starts, and an attempt "
    "to change them is refused (INVALID_REQUEST); an unknown name is INVALID_CONFIG, where Apache Kafka keeps it for "
    "plugins."
)


def reference() -> str:
    """The page's text."""
    return "\n\n".join(
        [
            "# Reference",
            "Made by `tools/make_reference.py` from the code; a test holds the two together.",
            "## Verdicts\nWhat the log answers to a batch, and what the producer makes of it, is "
            "[a page of its own](verdicts.md); so is [what stock clients make of 46, 59 and 87](stock-clients.md).",
            "## Errors\nEvery exception that semel raises on purpose (`semel.errors`).",
            table(["exception", "is a", "what it says"], _exceptions()),
            "Kafka's error codes that semel sends or understands:",
            table(
                ["code", "name", "the same request may succeed later"],
                (
                    (int(code), code.name, "yes" if code.retriable else "no")
                    for code in sorted(errors.ErrorCode)
                ),
            ),
            "## APIs\nWhat the server serves; what is not here is not advertised (`semel.wire.api`).",
            table(
                ["key", "API", "versions"],
                (
                    (int(key), key.name, f"{api.version_min} to {api.version_max}")
                    for key, api in SERVED.items()
                ),
            ),
            "## Settings\n`semel serve` takes each as `-X name=value`, as `SEMEL_NAME` in the environment "
            "(dots as underscores), and in a TOML file (`--config`). An unknown name is an error; in the environment "
            "it is a warning, and what Kubernetes and Docker set there for a service called `semel` "
            "(`SEMEL_PORT=tcp://…`, `SEMEL_SERVICE_HOST` …) is passed over.",
            _DYNAMIC,
            table(
                ["setting", "default", "dynamic", "meaning"],
                (
                    (
                        f"`{name}`",
                        f"`{default}`" if default else "",
                        "yes" if name in CHANGEABLE else "",
                        doc,
                    )
                    for name, default, doc in describe_settings()
                ),
            ),
            "Dynamic, too, are `compression.type` and the levels `compression.gzip.level`, `compression.lz4.level` and "
            "`compression.zstd.level`: what topics fall back to. These are kept:",
            table(
                ["setting", "default", "meaning"],
                (
                    (f"`{name}`", f"`{one.default}`" if one.default else "", one.meaning)
                    for name, one in sorted({**KEPT, **THROTTLES}.items())
                ),
            ),
            "## Settings of a group\nSet with AlterConfigs or IncrementalAlterConfigs, within Kafka's bounds, and told "
            "by DescribeConfigs. All are of protocols that semel does not serve; they are kept.",
            table(
                ["setting", "default", "meaning"],
                (
                    (f"`{name}`", f"`{one.default}`", one.meaning)
                    for name, one in sorted(GROUP_SETTINGS.items())
                ),
            ),
            "## Settings of a topic\nGiven when a topic is made (`semel topic create -c name=value`), or altered while "
            "the server runs. A default that is a setting of the server is its value. What is *kept* is taken and "
            "told, for those who bring it along, and changes nothing.",
            table(
                ["setting", "default", "meaning"],
                (
                    (f"`{name}`", _default_of(name), one.meaning)
                    for name, one in sorted(TOPIC_SETTINGS.items())
                ),
            ),
            "## Settings of a producer\nKeywords of `semel.Producer` and `semel.aio.Producer`; `semel produce` takes "
            "them as `-X name=value`, but for those that it has an option for. Times in ms, sizes in bytes.",
            table(
                ["setting", "default", "meaning"],
                (
                    (f"`{item.name}`", f"`{item.default!r}`", item.metadata["meaning"])
                    for item in fields(ProducerSettings)
                ),
            ),
            "## Settings of a consumer\nKeywords of `semel.Consumer` and `semel.aio.Consumer`; what a group is, and "
            "what they mean there, is in [groups.md](groups.md). Times in ms, sizes in bytes.",
            table(
                ["setting", "default", "meaning"],
                (
                    (f"`{item.name}`", f"`{item.default!r}`", item.metadata["meaning"])
                    for item in fields(ConsumerSettings)
                ),
            ),
            '## Options of `format("semel")`\nThose of the Spark source and sink (`semel.spark.option_names`); '
            "keys are case-insensitive. What is not here is refused by name.",
            table(
                ["option", "for", "default", "meaning"],
                (
                    (f"`{option.name}`", _users_of(option.side), option.default, option.meaning)
                    for option in OPTIONS
                ),
            ),
            "Options of Spark's Kafka connector that are refused:",
            table(["option", "why"], ((f"`{name}`", why) for name, why in REFUSED.items())),
            "Those of it, and of Kafka's clients, that change nothing here and are ignored with a warning:",
            table(["options", "why"], _by_reason(IGNORED)),
            "",
        ]
    )


def _by_reason(reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for reason, names in groupby(sorted(reasons, key=reasons.__getitem__), reasons.__getitem__):
        yield ", ".join(f"`{name}`" for name in names), reason


def _users_of(side: Side) -> str:
    kinds = {"stream": "streaming", "batch": "batch"}
    users = []
    for what in ("source", "sink"):
        found = [kind for kind in kinds if side & Side[f"{kind}_{what}".upper()]]
        if found:
            users.append(what if len(found) == 2 else f"{kinds[found[0]]} {what}")
    return ", ".join(users)


if __name__ == "__main__":
    sys.exit(write_or_check("reference.md", reference()))
