"""``semel produce``: lines of stdin become records; with ``--identity``, exactly once over restarts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from semel.cli.line_fates import LineFates
from semel.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    Internal,
    Overrides,
    Topic,
    client_settings,
    dotted,
    pairs,
    refuse_internal,
)
from semel.cli.output import EXIT_INTERRUPTED, note
from semel.cli.progress import rows_progress
from semel.errors import ConfigError, DeliveryError, InputDiffers
from semel.wording import counted

if TYPE_CHECKING:
    from semel.client.producer import Producer

_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0"}
_OPTION_OF_SETTING = {
    "compression": "--compression",
    "identity": "--identity",
    "identity_store": "--identity",
}
_ANOTHER_FILE = "Other lines, or another topic, want an --identity file of their own"
_OR_BY_NUMBER = (
    ". If they are the same lines, send them as they were; only where they are made anew with other contents each time "
    "(a time, a random id), -X compare.rows=false goes by the number of lines alone"
)
_ROW_FROM_0 = re.compile(r"row (\d+) \(from 0\)")


class Line(NamedTuple):
    """One record to send."""

    key: bytes | None
    value: bytes | None


def produce(
    topic: Topic,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="One key for all records.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("-K", metavar="SEP", help=r"Key and value of a line are parted by this (\t: tab)."),
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="H=V", help="A header; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="P", help="To this one.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Only so many lines.")
    ] = None,
    empty_is_null: Annotated[
        bool, typer.Option("--null", "-Z", help="An empty key or value is null.")
    ] = False,
    compression: Annotated[
        str, typer.Option("--compression", "-z", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    identity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep who we are and how far we came here: a run that was cut off, given the same lines "
            "again, or more of them, sends only those that are not stored. Other lines are refused.",
        ),
    ] = None,
    internal: Internal = False,
    overrides: Overrides = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    r"""Send the lines of stdin, one record a line.

    Example: seq 1000000 | semel produce numbers --identity numbers.id
    """
    refuse_internal(topic, internal)
    if key is not None and key_separator is not None:
        raise ConfigError("-k gives every record one key, -K takes it from the line: use one of them")
    from semel import Producer
    from semel.cli.connect import open_cluster
    from semel.client.settings import ProducerSettings

    header_list = [(name, value.encode()) for name, value in pairs(headers or (), "-H").items()]
    separator = None if key_separator is None else unescape(key_separator).encode()
    fixed_key = None if key is None else key.encode()
    lines = read_lines(sys.stdin.buffer, separator, fixed_key, count, empty_is_null)
    settings = client_settings(overrides, {item.name: item.default for item in fields(ProducerSettings)})
    for name in settings.keys() & _OPTION_OF_SETTING.keys():
        raise ConfigError(f"-X {dotted(name)}: say it with {_OPTION_OF_SETTING[name]}")
    if (
        identity is None or not identity.exists()
    ):  # else it may be meant for another topic, so that none is made
        with open_cluster(bootstrap) as cluster:  # refused before any input is read
            cluster.topic(topic, allow_auto_topic_creation=True)
    fates = LineFates(topic, has_identity=identity is not None)
    try:
        with (
            Producer(bootstrap, compression=compression, identity_store=identity, **settings) as producer,
            rows_progress("produce") as progress,
        ):
            if due := producer.rows_to_drop:
                behind = "the beginning" if producer.position is None else f"line {producer.position + 1}"
                stored = f"{counted(due, 'record')} behind {behind} {'is' if due == 1 else 'are'} stored"
                note(f"{stored} by an earlier run; skipped when sent again")

            def send(number: int, line: Line) -> None:
                fates.begin(number)
                delivery = producer.send(
                    topic,
                    key=line.key,
                    value=line.value,
                    partition=partition,
                    headers=header_list,
                    position=None if identity is None else number - 1,
                )
                progress(fates.watch(delivery))

            numbered = enumerate(lines) if identity is None else producer.resume(lines)
            bad = _send_all(producer, numbered, send, fates, progress)
            skipped = producer.rows_skipped
    except KeyboardInterrupt:
        note(f"semel: interrupted: {fates.interruption()}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except InputDiffers as error:
        why = _ROW_FROM_0.sub(lambda found: f"line {int(found[1]) + 1}", error.why)
        raise InputDiffers(why, _ANOTHER_FILE + _OR_BY_NUMBER * error.may_be_remade) from None
    if bad is not None:
        raise ConfigError(f"{bad}; {_before(bad.number, topic, identity)}") from None
    how = "that are stored" if settings.get("compare_rows", True) else "by number, not compared"
    note(
        f"delivered {counted(fates.delivered, 'record')} to topic {topic}"
        + (f"; skipped {skipped:,} {how}" if skipped else "")
    )


def _send_all(
    producer: Producer,
    numbered: Iterable[tuple[Any, Line]],
    send: Callable[[int, Line], None],
    fates: LineFates,
    progress: Callable[[int], None],
) -> BadLine | None:
    """Send up to the end, the first failure, or a bad line, which is returned; raises for lines that failed."""
    bad: BadLine | None = None
    refused: DeliveryError | None = None
    try:
        for at, line in numbered:
            send(at + 1, line)
            if fates.has_failed:
                break
    except BadLine as error:
        bad = error  # what came before it is as good as if the input had ended there
    except DeliveryError as error:
        refused = error
    failed: DeliveryError | None = None
    try:
        producer.flush()
    except DeliveryError as error:
        failed = error  # told line by line
    progress(fates.settle(refused))
    if (failure := fates.failure() or failed) is not None:
        raise failure
    return bad


class BadLine(ConfigError):
    """A line that means no record; ``number`` counts from 1."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        super().__init__(f"line {number} {why}")


def _before(number: int, topic: str, identity: Path | None) -> str:
    """What became of the lines in front of a bad one, and what to do."""
    if number == 1:
        return "nothing was sent"
    is_one = number == 2
    return (
        f"the {counted(number - 1, 'record')} before it {'is' if is_one else 'are'} stored in topic {topic}: mend that "
        f"line, and " + ("send what begins with it" if identity is None else "run the same again")
    )


def read_lines(
    source: BinaryIO,
    separator: bytes | None,
    fixed_key: bytes | None,
    count: int | None,
    empty_is_null: bool,
) -> Iterator[Line]:
    """The records that the lines mean; :class:`BadLine` names one that lacks the separator."""
    for number, raw in enumerate(source, start=1):
        if count is not None and number > count:
            return
        text = raw.removesuffix(b"\n").removesuffix(b"\r")
        key, value = fixed_key, text
        if separator is not None:
            key, found, value = text.partition(separator)
            if not found:
                raise BadLine(number, f"has no key separator {separator.decode()!r}")
        yield Line(_or_null(key, empty_is_null), _or_null(value, empty_is_null))


def _or_null(text: bytes | None, empty_is_null: bool) -> bytes | None:
    return None if empty_is_null and not text else text


def unescape(text: str) -> str:
    """A separator as it is written on the command line."""
    separator = re.sub(r"\\[tn0]", lambda found: _ESCAPES[found[0]], text)
    if not separator:
        raise ConfigError("the key separator of -K is empty")
    return separator
