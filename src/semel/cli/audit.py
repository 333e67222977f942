"""``semel audit``: prove that a topic holds every row of another exactly once, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.audit.identity import IdentityRule, KeyFrom
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap
from semel.cli.output import Format, print_document
from semel.cli.produce import Line, read_lines, unescape
from semel.cli.progress import rows_progress
from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.audit.read import InputRows


def audit(
    output_topic: Annotated[
        str, typer.Option("--output", metavar="TOPIC", help="The topic to prove.", show_default=False)
    ],
    input_topic: Annotated[
        str | None,
        typer.Option("--input", metavar="TOPIC", help="What it must hold; without: only look for repeats."),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Or: the lines of a file, as semel produce takes them.", show_default=False
        ),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("-K", metavar="SEP", help=r"What parts key and value of the file's lines (\t: tab)."),
    ] = None,
    empty_is_null: Annotated[
        bool, typer.Option("--null", "-Z", help="An empty key or value of the file's lines is null.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Only these rows of the input must be there: SQL over key, value, partition, offset and "
            "timestamp_ms, as \"value ->> 'delay' > 60\" of a JSON value.",
        ),
    ] = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="The output may lack rows of the input, whichever they are.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="FIELD[,FIELD]", help="Fields of the JSON value that name a row."),
    ] = None,
    key_from: Annotated[
        KeyFrom | None,
        typer.Option(
            help="Or: the record's key, its value, or both (row).", show_default="row; with --key value-json"
        ),
    ] = None,
    input_key: Annotated[
        str | None, typer.Option(metavar="FIELD[,FIELD]", help="--key, where the input differs.")
    ] = None,
    input_key_from: Annotated[
        KeyFrom | None, typer.Option(help="--key-from, where the input differs.")
    ] = None,
    order_by: Annotated[
        str,
        typer.Option(
            metavar="key|none|FIELD[,FIELD]",
            help="Order is held among input rows with the same record key, or the same JSON fields.",
        ),
    ] = "key",
    examples: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="How many offenders to name a check.")
    ] = 10,
    rows_max: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Refuse topics with more rows; each takes about 100 bytes of memory."
        ),
    ] = 50_000_000,
    producers_max: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Refuse topics of more producers, counted in each partition."),
    ] = 1_000_000,
    output_format: Annotated[Format, typer.Option("--format", help="table: text for people.")] = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Prove that a topic holds the rows of another exactly once.

    Each of them, in order, and with no gap in the sequences of those who wrote them. Of a topic alone it is proven
    that nothing stands there twice that was sent once; with --key or --key-from, that no two rows have one name.
    Exit code 0: proven; 1: violated, with the first offenders named as topic-partition@offset, or not to be proven,
    as by an empty input, or one of which the condition holds for no row.

    Example: semel audit --input flights --output delays --where "value = 'late'"
    """
    from semel.audit.read import row_count
    from semel.audit.run import AuditPlan
    from semel.audit.run import audit as run_audit
    from semel.audit.where import compile_where
    from semel.cli.connect import open_cluster

    output_identity = IdentityRule.of(key, key_from)
    input_identity = (
        IdentityRule.of(input_key, input_key_from) if input_key or input_key_from else output_identity
    )
    plan = AuditPlan(
        output_topic=output_topic,
        input_topic=input_topic,
        input_rows=None if input_file is None else _lines_of(input_file, key_separator, empty_is_null),
        where=where,
        subset=subset,
        named=bool(key or key_from),
        output_identity=output_identity,
        input_identity=input_identity,
        order=_order(order_by),
        rows_max=rows_max,
        examples_max=examples,
        producers_max=producers_max,
    )
    if where is not None:
        compile_where(where)  # refused before anything is read
    with open_cluster(bootstrap) as cluster:
        total = (
            None
            if input_file
            else sum(row_count(cluster, topic) for topic in (input_topic, output_topic) if topic)
        )
        with rows_progress("audit", total) as progress:
            report = run_audit(cluster, plan, progress)
    if output_format is Format.TABLE:
        sys.stdout.write("\n".join(report.as_lines()) + "\n")
    elif output_format is Format.JSON:
        sys.stdout.write(json.dumps(report.as_document(), indent=2) + "\n")
    else:
        print_document(report.as_document(), output_format)
    if not report.holds:
        raise typer.Exit(1)


def _lines_of(path: Path, key_separator: str | None, empty_is_null: bool) -> InputRows:
    from semel.audit.read import InputRows

    separator = None if key_separator is None else unescape(key_separator).encode()
    if path.is_dir():
        raise ConfigError(f"--input-file {path}: it is a directory")
    if not path.exists():
        raise ConfigError(f"--input-file {path}: no such file")

    def read() -> Iterator[Line]:
        with path.open("rb") as source:
            yield from read_lines(source, separator, None, None, empty_is_null)

    return InputRows(str(path), read)


def _order(text: str) -> IdentityRule | None:
    if text == "none":
        return None
    return IdentityRule(KeyFrom.KEY) if text == "key" else IdentityRule.of(text, None)
