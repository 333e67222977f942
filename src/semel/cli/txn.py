"""``semel txn``: whose transactions are open, since when, who waits for them, and an end to one that nobody ends."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import Format, note, print_document, print_rows
from semel.errors import ConfigError
from semel.wording import counted

if TYPE_CHECKING:
    from semel.client.blocking import Cluster
    from semel.client.model import TransactionDescription
    from semel.client.transaction_admin import HeldPartition

app = typer.Typer(help="Transactions: whose, since when, and who waits for them.", no_args_is_help=True)

_ONGOING = "Ongoing"  # what is being ended already cannot be aborted
_MS_DIGITS_FROM = 10_000  # up to ten seconds, tenths are of interest
_HELD = [
    "topic",
    "partition",
    "open_from_offset",
    "last_stable_offset",
    "end_offset",
    "waiting_offsets",
    "is_held",
]

Names = Annotated[
    list[str],
    typer.Argument(metavar="TRANSACTIONAL-ID...", help="Transactional ids, as listed.", show_default=False),
]


@app.command("list")
def list_transactions(
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only in this one, as Ongoing or PrepareCommit; may be repeated.",
        ),
    ] = None,
    open_for: Annotated[
        str | None,
        typer.Option(
            "--open-for", metavar="TIME", help="Only those that are open for so long, as 90s or 5m."
        ),
    ] = None,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """List the transactional ids that the coordinators know, and how long each has had one open.

    Example: semel txn list --open-for 1m
    """
    from semel.cli.connect import open_cluster
    from semel.client import transaction_admin

    duration_min_ms = -1 if open_for is None else _duration_ms(open_for)
    now_ms = time.time_ns() // 1_000_000
    with open_cluster(bootstrap) as cluster:
        found = transaction_admin.listed(cluster, states or (), duration_min_ms=duration_min_ms)
    rows: list[dict[str, Any]] = []
    for item, described in found:
        open_ms = _open_ms(described, now_ms)
        if duration_min_ms >= 0 and (open_ms is None or open_ms < duration_min_ms):
            continue
        rows.append(
            {
                "transactional_id": item.transactional_id,
                "state": item.state,
                "producer_id": item.producer_id,
                "coordinator": item.coordinator,
                "open_ms": open_ms,
                "timeout_ms": None if described is None else described.timeout_ms,
                "partitions": None if described is None else len(described.partitions),
            }
        )
    if output_format is Format.TABLE:
        rows = [
            row | {"open_for": _seconds(row["open_ms"]), "timeout": _seconds(row["timeout_ms"])}
            for row in rows
        ]
    columns = ["transactional_id", "state", "producer_id", "coordinator", "open_for", "timeout", "partitions"]
    print_rows(rows, columns, output_format)


@app.command("describe")
def describe(
    name: Annotated[
        str,
        typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional id, as listed.", show_default=False),
    ],
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Show a transactional id, and of what it has open where readers of committed rows wait for it.

    IS-HELD: they go no further in that partition before this transaction ends. WAITING-OFFSETS counts what lies there.

    Example: semel txn describe loader
    """
    from semel.cli.connect import open_cluster
    from semel.client import transaction_admin

    with open_cluster(bootstrap) as cluster:
        found = transaction_admin.described(cluster, [name])[name]
        held = transaction_admin.held_partitions(cluster, found)
    document = _document(found, held, time.time_ns() // 1_000_000)
    if output_format is not Format.TABLE:
        print_document(document, output_format)
        return
    rows = document.pop("partitions")
    times = {"open_for": _seconds(document.pop("open_ms")), "timeout": _seconds(document.pop("timeout_ms"))}
    print_document(document | times | {"partitions": len(rows)}, output_format)
    if rows:
        sys.stdout.write("\n")
        print_rows(rows, _HELD, output_format)


@app.command("abort")
def abort(
    names: Names,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """End what transactional ids have open, as not committed, and shut their holders out.

    For a transaction that holds readers back and whose producer will not come again: by itself it ends after its
    timeout. A producer that still runs is told that it is fenced, and has to be started anew. One that has nothing open
    is left alone. Asks first on a terminal.

    Example: semel txn abort loader --dry-run
    """
    from semel.cli.connect import open_cluster
    from semel.client import transaction_admin

    with open_cluster(bootstrap) as cluster:
        found = transaction_admin.described(cluster, names)
        now_ms = time.time_ns() // 1_000_000
        for name, item in found.items():
            if item.state != _ONGOING:  # to shut its holder out would free nobody
                note(f"nothing is open under {name} ({item.state}): its holder is left alone")
        what = {name: _what(cluster, item, now_ms) for name, item in found.items() if item.state == _ONGOING}
        if dry_run:
            for name, line in what.items():
                note(f"would abort {name}: {line}; its holder would be shut out")
            return
        if what and not yes and sys.stdin.isatty():
            _ask(f"abort {'; '.join(f'{name} ({line})' for name, line in what.items())}?")
        for name, line in what.items():
            grant = transaction_admin.abort(cluster, found[name])
            note(f"aborted {name}: {line}; its holder is shut out by epoch {grant.producer_epoch}")


def _ask(question: str) -> None:
    """A person has to say yes; else nothing is done, and the exit code is 1."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was aborted")
        raise typer.Exit(1)


def _what(cluster: Cluster, found: TransactionDescription, now_ms: int) -> str:
    from semel.client import transaction_admin

    held = [item for item in transaction_admin.held_partitions(cluster, found) if item.is_held]
    waiting = sum(item.waiting_offsets for item in held)
    open_for = _seconds(_open_ms(found, now_ms)) or "some time"
    return f"open for {open_for} in {counted(len(found.partitions), 'partition')}" + (
        f", {counted(waiting, 'offset')} wait for it in {len(held)}" if held else ""
    )


def _document(found: TransactionDescription, held: list[HeldPartition], now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "open_ms": _open_ms(found, now_ms),
        "timeout_ms": found.timeout_ms,
        "partitions": [
            {
                "topic": item.tp.topic,
                "partition": item.tp.partition,
                "open_from_offset": item.open_from_offset,
                "last_stable_offset": item.last_stable_offset,
                "end_offset": item.end_offset,
                "waiting_offsets": item.waiting_offsets,
                "is_held": item.is_held,
            }
            for item in held
        ],
    }


def _open_ms(found: TransactionDescription | None, now_ms: int) -> int | None:
    """How long it is open, by two clocks: the coordinator's, and ours."""
    from semel.client.transaction_admin import is_at_rest

    if found is None or found.began_ms is None or is_at_rest(found.state):
        return None
    return max(0, now_ms - found.began_ms)


def _seconds(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return f"{time_ms / 1000:.1f} s" if time_ms < _MS_DIGITS_FROM else f"{time_ms // 1000} s"


def _duration_ms(text: str) -> int:
    from semel.flow.durations import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"--open-for: {error}") from None
