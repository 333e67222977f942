"""``semel audit``: prove that a topic holds every row of another exactly once, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.audit.identity import By, IdentityRule, KeyFrom
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap
from semel.cli.output import Format, print_document
from semel.cli.produce import Line, read_lines, unescape
from semel.cli.progress import parts_progress
from semel.errors import ConfigError
from semel.land.formats import ValueFormat

if TYPE_CHECKING:
    from semel.audit.contents import ValueReader
    from semel.audit.flows import FlowReport
    from semel.audit.read import InputRows
    from semel.audit.report import AuditReport
    from semel.audit.run import AuditPlan
    from semel.audit.tables import TableFiles


class Shape(StrEnum):
    """Shapes of a report."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"


def audit(
    context: typer.Context,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC|delta:PATH|parquet:PATH",
            help="What to prove: a topic, a Delta table's folder, or Parquet files.",
            show_default=False,
        ),
    ] = None,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="TOPIC|delta:PATH|parquet:PATH",
            help="What it must hold; without: only look for repeats.",
            show_default=False,
        ),
    ] = None,
    flow: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Or: each stage of this file's flow equals a replay of its recorded inputs.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --flow: this one.", show_default="the only one")
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
    input_value: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help='What the output holds as value of an input row, in the SQL of --where: as "upper(value)".',
            show_default="value",
        ),
    ] = None,
    subset: Annotated[
        bool, typer.Option("--subset", help="The output may lack rows of the input, whichever they are.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="The output holds of the input what lies before this group's positions; alone: they lie in the log.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            help="What a row is known by: its content, the input row's place in columns of a table, or that in "
            "lineage headers.",
            show_default="content; place where a table has _partition and _offset",
        ),
    ] = None,
    value: Annotated[
        ValueFormat | None,
        typer.Option(
            "--value",
            help="By place: what semel land read a table's values as.",
            show_default="json with the table's columns, where it has _error",
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="DDL|FILE", help="--schema of semel land.", show_default=False)
    ] = None,
    writer_schema: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=FILE", help="--writer-schema of semel land.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]|none",
            help="By place: compare only these columns of a table.",
            show_default="all that can be",
        ),
    ] = None,
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
            min=1, metavar="N", help="Refuse topics with more rows; each takes up to 150 bytes of disk."
        ),
    ] = 1_000_000_000,
    memory_mib: Annotated[
        int,
        typer.Option(
            "--memory-max", min=64, metavar="MIB", help="What is beyond it lies on the disk meanwhile."
        ),
    ] = 512,
    disk_mib: Annotated[
        int | None,
        typer.Option(
            "--disk-max", min=1, metavar="MIB", help="Give up beyond it.", show_default="what is free"
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where to keep rows while they are compared.", show_default="the system's"
        ),
    ] = None,
    producers_max: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Refuse topics of more producers, counted in each partition."),
    ] = 1_000_000,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            "--dead-letter",
            metavar="TOPIC",
            help="Leave out batches that nobody can read and that this topic has, in the log of the output.",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[
        Shape, typer.Option("--format", help="html: one page that needs nothing beside it.")
    ] = Shape.TEXT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output_bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="H:P",
            help="A server of the log with the output's topic, where that is another one.",
            show_default="that of --bootstrap",
        ),
    ] = None,
) -> None:
    """Prove that a topic, or a table, holds the rows of another exactly once.

    Each of them, in order, and with no gap in the sequences of those who wrote them. Of a topic alone it is proven
    that nothing stands there twice that was sent once; with --key or --key-from, that no two rows have one name.
    Exit code 0: proven; 1: violated, with the first offenders named as topic-partition@offset, or not to be proven,
    as by an empty input, one of which the condition holds for no row, or what a flow made of rows that are gone.

    Example: semel audit --input flights --output delays --where "value = 'late'"
    """
    from semel.audit.run import AuditPlan
    from semel.audit.store import Room
    from semel.audit.tables import TableFiles
    from semel.record.where import compile_value, compile_where

    if flow is not None:
        if output or input_ or input_file:
            raise ConfigError("--flow names what is read and written: it goes without --output and --input")
        if output_bootstrap:
            raise ConfigError("--flow is of one log, that of --bootstrap: it goes without --output-bootstrap")
        _tell(_audit_flow(flow, name, bootstrap), f"semel audit --flow {flow}", shape)
        return
    if output is None:
        raise _missing("--output", context)
    output_identity = IdentityRule.of(key, key_from)
    input_identity = (
        IdentityRule.of(input_key, input_key_from) if input_key or input_key_from else output_identity
    )
    output_table = TableFiles.named(output)
    input_table = None if input_ is None else TableFiles.named(input_)
    plan = AuditPlan(
        output_topic="" if output_table else output,
        output_table=output_table,
        input_topic=None if input_table else input_,
        input_rows=None if input_file is None else _lines_of(input_file, key_separator, empty_is_null),
        input_table=input_table,
        input_bootstrap=bootstrap if output_bootstrap and input_ and not input_table else "",
        output_bootstrap=output_bootstrap or "",
        by=by,
        where=where,
        input_value=input_value,
        values=_values(value, schema, writer_schema, output_table or input_table),
        columns=None if columns is None else _names(columns),
        subset=subset,
        group=group,
        named=bool(key or key_from),
        output_identity=output_identity,
        input_identity=input_identity,
        order=_order(order_by),
        rows_max=rows_max,
        examples_max=examples,
        producers_max=producers_max,
        dead_letter_topic=dead_letter,
        room=Room(memory_mib * 2**20, None if disk_mib is None else disk_mib * 2**20, scratch),
    )
    if where is not None:
        compile_where(where)  # refused before anything is read
    if input_value is not None:
        compile_value(input_value)
    of = input_ or input_file
    at = f" --output-bootstrap {output_bootstrap}" if output_bootstrap else ""
    what = f"semel audit{'' if of is None else f' --input {of}'} --output {output}{at}"
    _tell(_run(plan, bootstrap), what, shape)


def _run(plan: AuditPlan, bootstrap: str) -> AuditReport:
    from semel.audit.run import audit as run_audit
    from semel.cli.connect import open_cluster

    with parts_progress() as watch, ExitStack() as stack:
        cluster = output_cluster = None
        if plan.output_bootstrap:
            output_cluster = stack.enter_context(open_cluster(plan.output_bootstrap))
        if isinstance(plan.source, str) or (isinstance(plan.output, str) and output_cluster is None):
            cluster = stack.enter_context(open_cluster(bootstrap))
        return run_audit(cluster, plan, watch=watch, output_cluster=output_cluster)


def _audit_flow(file: Path, name: str | None, bootstrap: str) -> FlowReport:
    from semel.audit.flows import audit_flow
    from semel.cli.connect import greet
    from semel.flow.files import load_flows

    plan = load_flows(file).flow(name).plan()
    greet(bootstrap)
    return audit_flow(plan, bootstrap)


def _tell(report: AuditReport | FlowReport, what: str, shape: Shape) -> None:
    if shape is Shape.TEXT:
        sys.stdout.write("\n".join(report.as_lines()) + "\n")
    elif shape is Shape.JSON:
        sys.stdout.write(json.dumps(report.as_document(), indent=2) + "\n")
    elif shape is Shape.HTML:
        from semel.audit.html import page

        sys.stdout.write(page(report, what))
    else:
        print_document(report.as_document(), Format.YAML)
    if not report.holds:
        raise typer.Exit(1)


def _missing(option: str, context: typer.Context) -> Exception:
    """The refusal of the command library for an option that is not there."""
    usage_error: Any = typer.BadParameter.__bases__[0]
    refusal: Exception = usage_error(f"Missing option '{option}'.", ctx=context)
    return refusal


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


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(name.strip() for name in text.split(","))


def _values(
    value: ValueFormat | None, schema: str | None, writer_schema: list[str] | None, table: TableFiles | None
) -> ValueReader | None:
    """The reader that a landing with these options has; without a schema the table's columns are that of its JSON."""
    from semel.audit.contents import json_reader
    from semel.cli.land import writers_of
    from semel.land.job import value_reader

    if value is None:
        if schema or writer_schema:
            raise ConfigError("--schema and --writer-schema say how --value reads values: say that, too")
        return None
    if value is ValueFormat.RAW:
        raise ConfigError("--value raw: a table says by itself that it has values as they came; leave it out")
    if table is None:
        raise ConfigError(
            "--value is of a table that is held against a topic: name it with --output delta:PATH"
        )
    if value is ValueFormat.JSON and schema is None:
        return json_reader(table.shape)
    return value_reader(value, schema, writers_of(writer_schema))
