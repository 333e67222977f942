"""``semel group``: who reads together, how far they have come, and where they go on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.offsets import GRAMMAR, parse_point
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import Format, note, print_document, print_rows
from semel.errors import ConfigError, GroupError
from semel.types import TopicPartition
from semel.wording import counted

if TYPE_CHECKING:
    from semel.client.blocking import Cluster
    from semel.client.groups import GroupDescription, PartitionLag

app = typer.Typer(help="Who reads together: members, lag, offsets.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", show_default=False)]
TopicFilter = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_groups(output_format: OutputFormat = Format.TABLE, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT) -> None:
    """List the groups.

    Example: semel group list --format json
    """
    from semel.cli.connect import open_cluster

    with open_cluster(bootstrap) as cluster:
        found = cluster.list_groups()
    rows = [
        {
            "group": item.group,
            "state": item.state or None,
            "protocol_type": item.protocol_type or None,
            "kind": item.kind or None,
        }
        for item in found
    ]
    print_rows(rows, ["group", "state", "protocol_type", "kind"], output_format)


@app.command("describe")
def describe(
    group: Group, output_format: OutputFormat = Format.TABLE, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT
) -> None:
    """Show a group's members: where they run, and which partitions each has.

    Example: semel group describe loaders
    """
    from semel.cli.connect import open_cluster
    from semel.client import group_admin

    with open_cluster(bootstrap) as cluster:
        found = group_admin.describe(cluster, [group])[group]
    document = _described(found)
    if output_format is not Format.TABLE:
        print_document(document, output_format)
        return
    members = document.pop("members")
    print_document(document | {"members": len(members)}, output_format)
    if members:
        sys.stdout.write("\n")
        rows = [member | {"partitions": _ranges(member["partitions"])} for member in members]
        columns = ["member_id", "host", "client_id", "partitions"]
        if any(member["group_instance_id"] for member in members):
            columns.insert(1, "group_instance_id")
        print_rows(rows, columns, output_format)


@app.command("lag")
def lag(
    group: Group,
    topics: TopicFilter = None,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Show how far a group has come, and what is in front of it.

    Of every partition of the topics that it reads or has read, also of those that no member has. LAG counts offsets up
    to the last one that a reader of committed rows may see; where nothing was committed it is not known.

    Example: semel group lag loaders
    """
    from semel.cli.connect import open_cluster
    from semel.client import group_admin

    with open_cluster(bootstrap) as cluster:
        found = group_admin.group_lag(cluster, group)
    rows = [_lag_row(item) for item in found if not topics or item.tp.topic in topics]
    columns = [
        "topic",
        "partition",
        "committed_offset",
        "end_offset",
        "lag",
        "host",
        "client_id",
        "member_id",
    ]
    print_rows(rows, columns, output_format)
    known = [row["lag"] for row in rows if row["lag"] is not None]
    if output_format is Format.TABLE and rows:
        unknown = len(rows) - len(known)
        note(
            f"lag in all: {sum(known)}"
            + (f", and of {counted(unknown, 'partition')} nothing is committed" if unknown else "")
        )


@app.command("seek")
def seek(
    group: Group,
    to: Annotated[
        str | None, typer.Option("--to", "-o", metavar="POINT", help=f"Where to go on: {GRAMMAR}.")
    ] = None,
    shift: Annotated[
        int | None, typer.Option("--shift", metavar="N", help="So many offsets forward, or back (-N).")
    ] = None,
    to_group: Annotated[
        str | None, typer.Option("--to-group", metavar="GROUP", help="Where that group has come to.")
    ] = None,
    topics: TopicFilter = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, metavar="P", help="This one only; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output_format: OutputFormat = Format.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Set where a group goes on.

    Of the topics that it has committed, or of those named with -t. It must have no members: a member would go on where
    it is, and commit over it. What lies outside of a partition is moved to its start or end. Asks first on a terminal.

    Example: semel group seek loaders --to @-1h --dry-run
    """
    from semel.cli.connect import open_cluster
    from semel.cli.group_seek import Target, planned
    from semel.client import group_admin

    if sum(choice is not None for choice in (to, shift, to_group)) != 1:
        raise ConfigError("say where to, in one way: --to POINT, --shift N or --to-group GROUP")
    target = Target(None if to is None else parse_point(to), shift, to_group)
    with open_cluster(bootstrap) as cluster:
        moves = planned(cluster, group, target, topics, partitions)
        rows = [
            {
                "topic": move.tp.topic,
                "partition": move.tp.partition,
                "committed_offset": move.before,
                "new_offset": move.after,
                "shift": None if move.before is None else move.after - move.before,
            }
            for move in moves
        ]
        columns = ["topic", "partition", "committed_offset", "new_offset", "shift"]
        if dry_run:
            print_rows(rows, columns, output_format)
            found = cluster.describe_groups([group])[group]
            if found is not None and group_admin.has_readers(found):
                raise GroupError(
                    f"dry run: nothing was changed, and nothing would be: group {group!r} has members. Stop its "
                    "consumers first"
                )
            note("dry run: nothing was changed")
            return
        if not yes and sys.stdin.isatty():
            print_rows(rows, columns, Format.TABLE)
            _ask(f"set these offsets of group {group}?", "nothing was changed")
        offsets = {move.tp: move.after for move in moves}
        group_admin.change_offsets(group, lambda: cluster.commit_offsets(group, offsets))
    print_rows(rows, columns, output_format)
    note(f"group {group} goes on there in {counted(len(rows), 'partition')}")


@app.command("delete")
def delete(
    groups: Annotated[
        list[str], typer.Argument(metavar="GROUP...", help="Names of the groups.", show_default=False)
    ],
    topics: TopicFilter = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Delete groups with their offsets; with -t only their offsets of a topic.

    A group that has members is refused, with -t where one of them reads the topic; --dry-run says so, too. Nothing is
    deleted where a group has committed nothing of a topic that is named. Asks first on a terminal, as semel topic
    delete does.

    Example: semel group delete loaders
    """
    from semel.cli.connect import open_cluster
    from semel.client import group_admin

    with open_cluster(bootstrap) as cluster:
        described = group_admin.describe(cluster, groups)
        parts = _parts({group: group_admin.offsets_of(cluster, group) for group in described}, topics or [])
        if dry_run:
            refused = [part for part in parts if group_admin.has_readers(described[part.group], part.topic)]
            for part in parts:
                if part not in refused:
                    note(f"would delete {part}")
            if refused:
                raise GroupError(
                    f"dry run: nothing was deleted, and this would not be: {'; '.join(map(str, refused))}: members "
                    "read there. Stop its consumers first"
                )
            return
        if not yes and sys.stdin.isatty():
            _ask(f"delete {'; '.join(map(str, parts))}?", "nothing was deleted")
        errors = []
        for part in parts:
            try:
                part.delete(cluster)
            except GroupError as error:
                errors.append(error)
            else:
                note(f"deleted {part}")  # at once: what comes after it may fail
    if errors:
        raise GroupError("; ".join(map(str, errors)), errors[0].code)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is deleted as a whole, or not at all: a group, or its offsets in one topic."""

    group: str
    topic: str | None
    tps: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        what = f"group {self.group}" if self.topic is None else f"offsets of {self.group} in {self.topic}"
        return f"{what}, committed in {counted(len(self.tps), 'partition')}"

    def delete(self, cluster: Cluster) -> None:
        from semel.client import group_admin

        if self.topic is None:
            group_admin.refuse_undeleted(cluster.delete_groups([self.group]))
        else:
            group_admin.delete_offsets(cluster, self.group, self.tps)


def _parts(committed: Mapping[str, Iterable[TopicPartition]], topics: list[str]) -> list[_Part]:
    if not topics:
        return [_Part(group, None, tuple(tps)) for group, tps in committed.items()]
    parts = [
        _Part(group, topic, tuple(tp for tp in tps if tp.topic == topic))
        for group, tps in committed.items()
        for topic in dict.fromkeys(topics)
    ]
    missing = [f"group {part.group!r} of topic {part.topic!r}" for part in parts if not part.tps]
    if missing:
        raise GroupError(
            f"nothing was deleted, for nothing is committed by {', nor by '.join(missing)}: semel group lag shows what "
            "is"
        )
    return parts


def _ask(question: str, otherwise: str) -> None:
    """A person has to say yes; else nothing is done, and the exit code is 1."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note(otherwise)
        raise typer.Exit(1)


def _described(found: GroupDescription) -> dict[str, Any]:
    return {
        "group": found.group,
        "state": found.state,
        "protocol_type": found.protocol_type or None,
        "strategy": found.strategy or None,
        "coordinator": found.coordinator,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in member.assigned],
            }
            for member in sorted(found.members, key=lambda member: member.member_id)
        ],
    }


def _ranges(partitions: list[dict[str, Any]]) -> list[str]:
    """``flights-0..3``: a line of a table has no room for each."""
    by_topic: dict[str, list[int]] = {}
    for item in partitions:
        by_topic.setdefault(item["topic"], []).append(item["partition"])
    shown = []
    for topic, numbers in by_topic.items():
        first = last = numbers[0]
        for number in [*numbers[1:], -1]:
            if number == last + 1:
                last = number
                continue
            shown.append(f"{topic}-{first}" + (f"..{last}" if last > first else ""))
            first = last = number
    return shown


def _lag_row(item: PartitionLag) -> dict[str, Any]:
    member = item.member
    return {
        "topic": item.tp.topic,
        "partition": item.tp.partition,
        "committed_offset": item.committed_offset,
        "start_offset": item.start_offset,
        "end_offset": item.end_offset,
        "lag": item.lag,
        "metadata": item.metadata or None,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
        "member_id": None if member is None else member.member_id,
    }
