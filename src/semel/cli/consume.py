"""``semel consume``: records to stdout, by template or as JSON."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.offsets import GRAMMAR, Absolute, OffsetRange, Point, parse_range, place, timestamp_needed
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, DeadLetterTopic, Overrides, Topic, client_settings
from semel.cli.output import Format, note, yaml_lines
from semel.cli.patience import Patience
from semel.cli.template import DEFAULT_TEMPLATE, compile_template
from semel.cli.unreadable import UnreadableRows
from semel.errors import ConnectionLost, SemelError, UnreadableBatch
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel import Consumer
    from semel.client.blocking import Cluster
    from semel.client.cluster import Isolation
    from semel.client.consumer import ConsumerRecord

_POLL_TIMEOUT_S = 0.5
_POLL_RECORDS_MAX = 5_000
_CONSUMER_SETTINGS = {
    "partition_max_bytes": 0,
    "max_bytes": 0,
    "min_bytes": 0,
    "client_id": "",
    "request_timeout_ms": 0,
}
_GROUP_SETTINGS = {
    "group_instance_id": "",
    "session_timeout_ms": 0,
    "heartbeat_interval_ms": 0,
    "max_poll_interval_ms": 0,
    "partition_assignment_strategy": "",
    "metadata_max_age_ms": 0,
    "auto_commit_interval_ms": 0,
}


def consume(
    topic: Topic,
    offset: Annotated[str, typer.Option("--offset", "-o", metavar="OFFSET", help=f"{GRAMMAR}.")] = "start",
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, metavar="P", help="This one only; may be repeated."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="As a member of this group: from where it has come to; what was printed is committed.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Stop after so many records.")
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            "-f",
            metavar="TEMPLATE",
            help=r"%k %v %o %p %t %T %h \n: key, value, offset, partition, topic, timestamp, headers.",
        ),
    ] = DEFAULT_TEMPLATE,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Stop at the end, instead of waiting.")
    ] = False,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Show rows of open and aborted transactions too.")
    ] = False,
    output_format: Annotated[
        Format, typer.Option("--format", help="table: as -f says; json: one object a line.")
    ] = Format.TABLE,
    dead_letter: DeadLetterTopic = None,
    overrides: Overrides = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    r"""Print a topic's records.

    Waits for more at the end, unless told where to stop: with -e, -n or an offset a:b. A server that is away is
    waited for; one that stays away ends what has a stop with exit code 1.

    With -g the group's members share the partitions out, so there is no -p, and -o (start or end) says where to begin
    where nothing was committed yet.

    Example: semel consume flights -o -10: -f '%p:%o %k %v\n'
    """
    wanted = parse_range(offset)
    isolation: Isolation = "read_uncommitted" if uncommitted else "read_committed"
    if group is not None:
        from semel.cli.consume_group import GroupRead, check_choices

        reset = check_choices(wanted, partition)
        settings = client_settings(overrides, _CONSUMER_SETTINGS | _GROUP_SETTINGS)
        with UnreadableRows(bootstrap, topic, dead_letter, group) as unreadable:
            GroupRead(bootstrap, topic, group, reset, isolation, settings, unreadable).print_rows(
                _shape(template, output_format), count, exit_at_end
            )
        return
    if exit_at_end and wanted.stop is None:
        wanted = OffsetRange(wanted.first, parse_range("end").first)
    shape = _shape(template, output_format)
    from semel import Consumer
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        first, stop = _places(cluster, _partitions(cluster, topic, partition), wanted)
    import semel.record.columnar  # noqa: F401 - what takes a while is over before a silent server is looked for

    with (
        Consumer(
            bootstrap, isolation=isolation, **client_settings(overrides, _CONSUMER_SETTINGS)
        ) as consumer,
        Patience(lambda: consumer.inner.cluster.trouble) as patience,
        UnreadableRows(bootstrap, topic, dead_letter) as unreadable,
    ):
        consumer.assign(first)
        try:
            for number, record in enumerate(_records(consumer, patience, unreadable, first, stop), start=1):
                sys.stdout.buffer.write(shape(record))
                if number == count:
                    break
        finally:
            sys.stdout.buffer.flush()  # rows come before what is said of those that do not


def _partitions(cluster: Cluster, topic: str, only: list[int] | None) -> list[TopicPartition]:
    described = cluster.topic(topic)
    unknown = sorted(set(only or ()) - set(described.partitions))
    if unknown:
        raise SemelError(
            f"topic {topic!r} has no partition {unknown[0]}: they are 0 to {max(described.partitions)}"
        )
    return [TopicPartition(topic, number) for number in sorted(only or described.partitions)]


def _places(
    cluster: Cluster, partitions: list[TopicPartition], wanted: OffsetRange
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]:
    start = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    now_ms = int(time.time() * 1000)

    def offsets(point: Point) -> dict[TopicPartition, int]:
        timestamp_ms = timestamp_needed(point, now_ms)
        found = {} if timestamp_ms is None else cluster.list_offsets(dict.fromkeys(partitions, timestamp_ms))
        return {
            key: place(
                point,
                start_offset=start[key].offset,
                end_offset=end[key].offset,
                found_offset=found[key].offset if key in found and found[key].offset >= 0 else None,
            )
            for key in partitions
        }

    first = offsets(wanted.first)
    if isinstance(wanted.first, Absolute):
        for key in partitions:
            _note_other_start(key, wanted.first.offset, start[key].offset, end[key].offset)
    return first, None if wanted.stop is None else offsets(wanted.stop)


def _note_other_start(partition: TopicPartition, asked: int, start_offset: int, end_offset: int) -> None:
    """An offset that is not there is not an error; but who asked for it should not have to guess."""
    if asked < start_offset:
        note(f"{partition}: offset {asked} is gone, trimmed or by retention; it begins at {start_offset}")
    elif asked > end_offset:
        note(
            f"{partition}: offset {asked} is not written yet; it ends at {end_offset}, and is read from there"
        )


def _records(
    consumer: Consumer,
    patience: Patience,
    unreadable: UnreadableRows,
    first: dict[TopicPartition, int],
    stop: dict[TopicPartition, int] | None,
) -> Iterator[ConsumerRecord]:
    """Records in the order of arrival; ends when every partition has come to its stop.

    Who follows a log waits for a server that is away for as long as it takes; who wants a part of it, for as long
    as a request may take.
    """

    def poll() -> list[ConsumerRecord]:
        with patience.asking():
            return unreadable.poll(consumer, _POLL_TIMEOUT_S, _POLL_RECORDS_MAX)

    if stop is None:
        while True:
            with suppress(ConnectionLost):  # that it is away has been said
                yield from poll()
            sys.stdout.buffer.flush()  # what follows a live log must show at once
    open_partitions = {partition for partition, offset in first.items() if offset < stop[partition]}
    damage: UnreadableBatch | None = None
    while open_partitions:
        try:
            records = poll()
        except UnreadableBatch as error:
            damage = damage or error
            consumer.pause(error.partition)  # the others go on to their end
            open_partitions.discard(error.partition)
            continue
        for record in records:
            if record.offset < stop[TopicPartition(record.topic, record.partition)]:
                yield record
        # By position, not by record: the last offsets of a range may be a marker or an aborted row.
        open_partitions = {p for p in open_partitions if consumer.position(p) < stop[p]}
    if damage is not None:
        raise damage


def _shape(template: str, output_format: Format) -> Any:
    if output_format is Format.TABLE:
        return compile_template(template)
    if output_format is Format.JSON:
        return lambda record: json.dumps(_document(record), ensure_ascii=False).encode() + b"\n"
    return lambda record: "\n".join(yaml_lines([_document(record)])).encode() + b"\n"


def _document(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"name": name, "value": _text(value)} for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | dict[str, str] | None:
    """Text where the bytes are UTF-8; otherwise ``{"base64": …}``, so that nothing is lost."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
