"""``semel audit``: prove that a topic holds every row of another exactly once, in order."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from semel.audit.identity import IdentityRule, KeyFrom
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap
from semel.cli.output import Format, print_document
from semel.cli.progress import rows_progress


def audit(
    output_topic: Annotated[
        str, typer.Option("--output", metavar="TOPIC", help="The topic to prove.", show_default=False)
    ],
    input_topic: Annotated[
        str | None,
        typer.Option("--input", metavar="TOPIC", help="What it must hold; without: only look for repeats."),
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
            min=1, metavar="N", help="Refuse topics with more rows; each takes about 100 bytes of memory."
        ),
    ] = 50_000_000,
    output_format: Annotated[Format, typer.Option("--format", help="table: text for people.")] = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Prove that a topic holds the rows of another exactly once.

    Each of them, in order, and with no gap in the sequences of those who wrote them. Exit code 0: proven; 1:
    violated, with the first offenders named by partition and offset.

    Example: semel audit --input flights --output delays --key carrier,flight
    """
    from semel.audit.run import AuditPlan
    from semel.audit.run import audit as run_audit
    from semel.cli.connect import open_cluster

    output_identity = IdentityRule.of(key, key_from)
    input_identity = (
        IdentityRule.of(input_key, input_key_from) if input_key or input_key_from else output_identity
    )
    plan = AuditPlan(
        output_topic=output_topic,
        input_topic=input_topic,
        output_identity=output_identity,
        input_identity=input_identity,
        order=_order(order_by),
        rows_max=rows_max,
        examples_max=examples,
    )
    with open_cluster(bootstrap) as cluster, rows_progress("audit") as progress:
        report = run_audit(cluster, plan, progress)
    if output_format is Format.TABLE:
        sys.stdout.write("\n".join(report.as_lines()) + "\n")
    elif output_format is Format.JSON:
        sys.stdout.write(json.dumps(report.as_document(), indent=2) + "\n")
    else:
        print_document(report.as_document(), output_format)
    if not report.holds:
        raise typer.Exit(1)


def _order(text: str) -> IdentityRule | None:
    if text == "none":
        return None
    return IdentityRule(KeyFrom.KEY) if text == "key" else IdentityRule.of(text, None)
