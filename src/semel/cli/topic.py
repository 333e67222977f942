"""``semel topic``: make, look at, change and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from semel.cli import consume, produce
from semel.cli.offsets import GRAMMAR, Absolute, AfterStart, Point, parse_point, place, timestamp_needed
from semel.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    Internal,
    OutputFormat,
    Topic,
    pairs,
    refuse_internal,
)
from semel.cli.output import Format, note, print_document, print_rows
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from semel.wording import counted

app = typer.Typer(help="Make, look at, change and delete topics.", no_args_is_help=True)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)

Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting; may be repeated."),
]


@app.command("create")
def create(
    topic: Topic,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, metavar="N", help="How many partitions.")
    ] = 1,
    configs: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="An existing topic is no error.")
    ] = False,
    internal: Internal = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Make a topic.

    Example: semel topic create flights -p 4 -c retention.ms=-1
    """
    from semel.cli.connect import open_cluster
    from semel.errors import BrokerError, ErrorCode

    refuse_internal(topic, internal)
    with open_cluster(bootstrap) as cluster:
        try:
            cluster.create_topics({topic: partitions}, configs={topic: pairs(configs or (), "--config")})
        except BrokerError as error:
            if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            note(f"topic {topic} is there already")
            return
    note(f"made topic {topic} with {partitions} partition{'s' * (partitions != 1)}")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """List the topics.

    Example: semel topic list --format json
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        described = cluster.metadata().topics
    rows = [
        {"name": topic.name, "partitions": len(topic.partitions), "internal": topic.is_internal}
        for _, topic in sorted(described.items())
        if internal or not topic.is_internal
    ]
    print_rows(rows, ["name", "partitions"] + ["internal"] * internal, output_format)


@app.command("describe")
def describe(
    topic: Topic, output_format: OutputFormat = Format.TABLE, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT
) -> None:
    """Show a topic's partitions and its settings.

    OFFSETS is how many lie between start and end. There are no more records than that, and fewer where markers of
    transactions and fences stand, or compaction took some: semel audit counts them.

    Example: semel topic describe flights
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        described = cluster.topic(topic)
        partitions = [TopicPartition(topic, number) for number in sorted(described.partitions)]
        first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        configs = {
            name: entry.value for name, entry in sorted(cluster.describe_configs([topic])[topic].items())
        }
    rows: list[dict[str, Any]] = [
        {
            "partition": partition.partition,
            "leader": described.partitions[partition.partition].leader,
            "start_offset": first[partition].offset,
            "end_offset": end[partition].offset,
            "offsets": end[partition].offset - first[partition].offset,
        }
        for partition in partitions
    ]
    if output_format is not Format.TABLE:
        print_document(
            {"name": topic, "id": str(described.topic_id), "partitions": rows, "configs": configs},
            output_format,
        )
        return
    print_rows(rows, ["partition", "leader", "start_offset", "end_offset", "offsets"], output_format)
    for name, value in configs.items():
        note(f"{name} = {value}")


@app.command("delete")
def delete(
    topic: Topic,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Delete a topic with all its records.

    Asks first on a terminal; a script, whose input is none, has said it by running the command.

    Example: semel topic delete flights
    """
    from semel.cli.connect import open_cluster
    from semel.errors import BrokerError, ErrorCode, SemelError

    with open_cluster(bootstrap) as cluster:
        try:
            if not yes and sys.stdin.isatty():
                partitions = counted(len(cluster.topic(topic).partitions), "partition")
                _ask(f"delete topic {topic}, {partitions}, with all its records?")
            cluster.delete_topics([topic])
        except BrokerError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise SemelError(f"there is no topic {topic!r}: semel topic list shows what there is") from None
    note(f"deleted topic {topic}")


def _ask(question: str) -> None:
    """A person has to say yes; else nothing is deleted, and the exit code is 1."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was deleted")
        raise typer.Exit(1)


@app.command("add-partitions")
def add_partitions(
    topic: Topic,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=2, metavar="N", help="How many it shall have in all.")
    ],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Give a topic more partitions.

    Keys then go to other partitions than before.

    Example: semel topic add-partitions flights -p 8
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        cluster.add_partitions({topic: partitions})
    note(f"topic {topic} has {counted(partitions, 'partition')}")


@app.command("alter-config")
def alter_config(
    topic: Topic,
    configs: Configs = None,
    delete_names: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="NAME", help="Back to the default; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Change a topic's settings.

    Example: semel topic alter-config flights -c retention.ms=86400000
    """
    from semel.cli.connect import open_cluster

    changes: dict[str, str | None] = {**pairs(configs or (), "--config"), **dict.fromkeys(delete_names or ())}
    if not changes:
        raise typer.BadParameter("say what to change: -c NAME=VALUE or -d NAME")
    with open_cluster(bootstrap) as cluster:
        cluster.alter_configs({topic: changes})
    note(f"changed {', '.join(changes)} of topic {topic}")


@app.command("trim-prefix")
def trim_prefix(
    topic: Topic,
    offset: Annotated[
        str, typer.Option("--offset", "-o", metavar="POINT", help=f"First to keep: {GRAMMAR}.")
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="P", help="This partition only.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Delete the records before an offset. What is gone is gone.

    Asks first on a terminal, as semel topic delete does. An offset behind the end is refused, and nothing trimmed.

    Example: semel topic trim-prefix flights -o @-7d
    """
    import time

    from semel.cli.connect import open_cluster

    point = parse_point(offset)
    with open_cluster(bootstrap) as cluster:
        numbers = sorted(cluster.topic(topic).partitions) if partition is None else [partition]
        partitions = [TopicPartition(topic, number) for number in numbers]
        first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        _refuse_behind_end(point, {key: (first[key].offset, end[key].offset) for key in partitions})
        timestamp_ms = timestamp_needed(point, int(time.time() * 1000))
        found = {} if timestamp_ms is None else cluster.list_offsets(dict.fromkeys(partitions, timestamp_ms))
        before = {
            key: place(
                point,
                start_offset=first[key].offset,
                end_offset=end[key].offset,
                found_offset=found[key].offset if key in found and found[key].offset >= 0 else None,
            )
            for key in partitions
        }
        gone = sum(first_kept - first[key].offset for key, first_kept in before.items())
        if gone and not yes and sys.stdin.isatty():
            _ask(f"delete {counted(gone, 'offset')} of topic {topic}? What is gone is gone")
        cluster.delete_records(before)
    for key, first_kept in before.items():
        note(f"{key} now starts at offset {first_kept}")


def _refuse_behind_end(point: Point, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Apache Kafka answers OFFSET_OUT_OF_RANGE for its partition; here none of the others is trimmed either.

    A time, or a count from the end, says itself how much may go; a number that is too high is a slip of the hand.
    """
    from semel.errors import SemelError

    behind: dict[TopicPartition, tuple[int, int]] = {}
    for key, (start_offset, end_offset) in bounds.items():
        match point:
            case Absolute(offset):
                wanted = offset
            case AfterStart(count):
                wanted = start_offset + count
            case _:
                return
        if wanted > end_offset:
            behind[key] = (wanted, end_offset)
    if behind:
        wanted, _ = next(iter(behind.values()))
        ends = [f"of {key}, {end_offset}" for key, (_, end_offset) in behind.items()]
        shown = ", and ".join(ends[:3]) + f", and of {len(ends) - 3} more" * (len(ends) > 3)
        said = f"offset {wanted}" if isinstance(point, Absolute) else str(point)
        raise SemelError(f"{said} is behind the end {shown}: nothing was trimmed")
