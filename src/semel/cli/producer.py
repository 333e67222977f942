"""``semel producer``: who writes into the log, in which epoch, up to which sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import Format, print_rows
from semel.errors import SemelError
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.client.blocking import Cluster

app = typer.Typer(help="Who writes: producer ids, epochs, sequences.", no_args_is_help=True)

_COLUMNS = ["topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms"]

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

    Example: semel producer list -t flights
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        rows = _producers(cluster, topics)
    print_rows(rows, _COLUMNS, output_format)


@app.command("describe")
def describe(
    producer_id: Annotated[int, typer.Argument(min=0, metavar="PRODUCER-ID", show_default=False)],
    topics: TopicFilter = None,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Show where one producer has written, and up to which sequence.

    Example: semel producer describe 4000
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        rows = [row for row in _producers(cluster, topics) if row["producer_id"] == producer_id]
    if not rows:
        raise SemelError(f"no partition remembers producer {producer_id}: semel producer list shows them all")
    print_rows(rows, _COLUMNS, output_format)


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
        }
        for partition, producers in sorted(cluster.describe_producers(partitions).items())
        for producer in producers
    ]
