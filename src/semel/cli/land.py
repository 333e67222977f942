"""``semel land``: topics to a Delta table, or to Parquet files, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, DeadLetterTopic, pairs
from semel.cli.output import EXIT_INTERRUPTED, note
from semel.errors import ConfigError
from semel.land.formats import TableFormat, ValueFormat
from semel.wording import counted

if TYPE_CHECKING:
    from semel.errors import DataLoss


def land(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="What to land.", show_default=False)
    ],
    table: Annotated[
        Path,
        typer.Option(
            "--to", metavar="DIR", help="The table's folder; made where there is none.", show_default=False
        ),
    ],
    table_format: Annotated[
        TableFormat, typer.Option("--format", help="A Delta table, or Parquet files with a manifest.")
    ] = TableFormat.DELTA,
    value: Annotated[ValueFormat, typer.Option("--value", help="What values are read as.")] = ValueFormat.RAW,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL|FILE",
            help='The columns of a value: for JSON as "user string, at timestamp", for Avro a file with its schema.',
        ),
    ] = None,
    writer_schema: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=FILE",
            help="Avro in Confluent's frame: the schema that values with this id were written with; may be repeated.",
        ),
    ] = None,
    partition_by: Annotated[
        str | None,
        typer.Option(metavar="day|COLUMN", help="Folders by the record's day (UTC), or by a column's value."),
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", help="Land the records' headers, too, in the column headers.")
    ] = False,
    job: Annotated[
        str, typer.Option(metavar="NAME", help="Two jobs may fill one table: each has positions of its own.")
    ] = "land",
    start: Annotated[
        str,
        typer.Option(
            "--start", metavar="earliest|latest", help="Where a topic begins that the job does not know."
        ),
    ] = "earliest",
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Land what is there now, and stop; else follow.")
    ] = False,
    commit_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Commit after so many rows,")
    ] = 5_000_000,
    commit_bytes: Annotated[
        int, typer.Option(min=1, metavar="N", help="or so many bytes of files,")
    ] = 268_435_456,
    commit_every: Annotated[
        str, typer.Option(metavar="TIME", help='or so long after the first row: "10 s", "5 min".')
    ] = "60 s",
    compact: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Make large files of small ones after every N commits."),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Go on where rows are gone that were not landed; each loss is told."
        ),
    ] = False,
    dead_letter: DeadLetterTopic = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="H:P", help="Serve its progress for Prometheus.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Land topics in a Delta table, or in Parquet files with a manifest, exactly once.

    Positions are saved in the same commit as the rows, so it may be killed at any moment and run again; of two copies
    of a job the older one stops. Columns: those of the value, then _topic, _partition, _offset, _timestamp and _key.
    A value that does not fit is a row too: _error says why, and _value has its bytes.

    On SIGTERM or Ctrl-C it ends behind one more commit, with exit code 0 (130 where --until-end was cut short).

    Example: semel land clicks --to clicks --value json --schema "user string, page string" --partition-by day
    """
    from semel.cli.connect import open_cluster
    from semel.core.land.bounds import CommitBounds
    from semel.land.job import Job, run_job
    from semel.land.run import AWAY_MS_MAX, LandPlan
    from semel.land.told import Lines

    if start not in ("earliest", "latest"):
        raise ConfigError(f"--start {start!r}: earliest or latest")
    asked = Job(
        name=job,
        table=table,
        plan=LandPlan(
            topics=topics,
            bounds=CommitBounds(commit_rows, commit_bytes, _duration_ms(commit_every)),
            from_latest=start == "latest",
            until_end=until_end,
            accept_loss=accept_loss,
            compact_every=compact,
        ),
        table_format=table_format,
        value_format=value,
        schema=schema,
        writers=writers_of(writer_schema),
        partition_by=partition_by,
        with_headers=headers,
        metrics=metrics,
        dead_letter_topic=dead_letter,
    )
    asked.values()  # refused before anything is read
    lines = Lines(str(table))
    with open_cluster(bootstrap, patience_ms=AWAY_MS_MAX) as cluster:
        progress, was_stopped = run_job(
            asked, cluster, on_progress=(lambda progress: None) if quiet else lines.show, on_loss=_tell_loss
        )
    if not quiet:
        rows = counted(progress.rows, "row")
        if progress.why_not_compacted is not None:
            failed = counted(progress.compactions_failed, "compaction")
            note(f"semel: {failed} failed, the last because of: {progress.why_not_compacted}")
        note(f"semel: {rows} in {counted(progress.commits, 'commit')}; {table} has all that was read")
    if was_stopped and until_end:
        raise typer.Exit(EXIT_INTERRUPTED)


def _tell_loss(loss: DataLoss) -> None:
    note(f"semel: lost, and accepted: {loss.offsets} of {loss.partition}: {loss.why}")


def _duration_ms(text: str) -> int:
    from semel.flow.durations import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"--commit-every: {error}") from None


def writers_of(texts: list[str] | None) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for number, path in pairs(texts or (), "--writer-schema").items():
        if not (number.isascii() and number.isdigit() and int(number) < 2**32):
            raise ConfigError(f"--writer-schema {number}={path}: an id is a whole number of 32 bits")
        found[int(number)] = Path(path)
    return found
