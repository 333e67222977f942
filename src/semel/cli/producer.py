"""``semel producer``: who writes into the log, in which epoch, up to which sequence."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import Format, print_document, print_rows
from semel.errors import SemelError
from semel.types import TopicPartition, is_leased

if TYPE_CHECKING:
    from semel.client.blocking import Cluster

app = typer.Typer(help="Who writes: producer ids, epochs, sequences.", no_args_is_help=True)

_WHO = ["producer_id", "producer_epoch"]
_LEASE = ["kind", "lease_ends"]
_WHERE = ["topic", "partition", "last_sequence", "last_timestamp"]
_OPEN = ["open_transaction_from_offset"]

TopicFilter = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated.")
]


@app.command("list")
def list_producers(
    topics: TopicFilter = None,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """List the producers that the partitions remember.

    A partition knows of each the epoch, and the sequence and timestamp of its last record; the next one that it
    takes carries the sequence after it. A leased id lives until its lease ends, any other for as long as it writes.

    Example: semel producer list -t flights
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        rows = _producers(cluster, topics)
    print_rows(_shown(rows, output_format), _WHO + _WHERE + _LEASE, output_format)


@app.command("describe")
def describe(
    producer_id: Annotated[
        int, typer.Argument(min=0, metavar="PRODUCER-ID", help="Its id, as listed.", show_default=False)
    ],
    topics: TopicFilter = None,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Show where one producer has written, in which epoch and how far.

    Example: semel producer describe 0
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        rows = [row for row in _producers(cluster, topics) if row["producer_id"] == producer_id]
    if not rows:
        raise SemelError(f"no partition remembers producer {producer_id}: semel producer list shows them all")
    shown = _shown(rows, output_format)
    if output_format is Format.TABLE:
        print_rows(shown, ["producer_epoch", *_WHERE, *_OPEN, *_LEASE], output_format)
        return
    partitions = [{name: value for name, value in row.items() if name != "producer_id"} for row in shown]
    print_document({"producer_id": producer_id, "partitions": partitions}, output_format)


def _shown(rows: list[dict[str, Any]], output_format: Format) -> list[dict[str, Any]]:
    """Milliseconds for programs, a date for people."""
    if output_format is not Format.TABLE:
        return rows
    now_ms = time.time_ns() // 1_000_000
    return [
        row
        | {
            "last_timestamp": _date(row["last_timestamp_ms"]),
            "lease_ends": _end(row["lease_remaining_ms"], now_ms),
        }
        for row in rows
    ]


def _end(lease_remaining_ms: int | None, now_ms: int) -> str | None:
    if lease_remaining_ms is None:
        return None
    return _date(now_ms + lease_remaining_ms) if lease_remaining_ms else "over"


def _date(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _producers(cluster: Cluster, topics: list[str] | None) -> list[dict[str, Any]]:
    described = cluster.metadata(topics).topics
    unknown = sorted(name for name, topic in described.items() if topic.error_code)
    if unknown:
        raise SemelError(f"there is no topic {unknown[0]!r}: semel topic list shows what there is")
    partitions = [
        TopicPartition(name, number) for name, topic in described.items() for number in topic.partitions
    ]
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp_ms": producer.last_timestamp_ms,
            "open_transaction_from_offset": _or_none(producer.transaction_start_offset),
            "kind": "leased" if is_leased(producer.producer_id) else "stock",
            "lease_remaining_ms": producer.lease_remaining_ms,
        }
        for partition, producers in sorted(cluster.describe_producers(partitions).items())
        for producer in producers
    ]


def _or_none(offset: int) -> int | None:
    return None if offset < 0 else offset
