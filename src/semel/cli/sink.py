"""``semel sink``: what the exactly-once sinks of Spark queries have decided, and the way out of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.cli.connect import greet
from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import Format, note, print_rows
from semel.errors import SemelError
from semel.wording import counted

if TYPE_CHECKING:
    from semel.core.sink.history import SinkHistory

app = typer.Typer(help="The exactly-once sinks of Spark queries.", no_args_is_help=True)

_COLUMNS = ["sink_id", "sink_epoch", "owner", "query_id", "batch_id", "row_count", "topics"]
_END_COLUMNS = ["of", "topic", "partition", "end_offset"]

SinkId = Annotated[
    str, typer.Argument(metavar="SINK-ID", help="The sinkId of the query, or FLOW/STAGE.", show_default=False)
]


@app.command("list")
def list_sinks(output_format: OutputFormat = Format.TABLE, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT) -> None:
    """List the sinks, who holds each, and the last micro-batch that it has decided.

    Example: semel sink list
    """
    from semel.spark.known_sinks import known_sinks

    greet(bootstrap)
    print_rows([_row(history) for history in known_sinks(bootstrap).values()], _COLUMNS, output_format)


@app.command("describe")
def describe(
    sink_id: SinkId, output_format: OutputFormat = Format.TABLE, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT
) -> None:
    """Show up to where a sink has decided its sources, and where its output ends.

    Example: semel sink describe flights
    """
    from semel.spark.known_sinks import known_sinks

    greet(bootstrap)
    history = known_sinks(bootstrap).get(sink_id)
    if history is None:
        raise SemelError(f"there is no sink {sink_id!r}: semel sink list shows them all")
    decision = history.decision
    ends = [] if decision is None else [("source", decision.source_ends), ("output", decision.output_ends)]
    rows = [
        {"of": what, "topic": tp.topic, "partition": tp.partition, "end_offset": end_offset}
        for what, offsets in ends
        for tp, end_offset in sorted(offsets.items())
    ]
    print_rows(rows, _END_COLUMNS, output_format)


@app.command("reset")
def reset(
    sink_id: SinkId,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is done.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Forget what a sink has decided: its next run begins as if it were new, and any driver of it stops.

    Rows that are in the output stay there. A query that begins before them writes them a second time, and one that
    begins behind the decided ends leaves rows out. To go on without either there is startingOffsets=sink:<sinkId>, on a
    new checkpoint and without a reset. A stage of a flow forgets its state, and needs no reset to go on.

    Example: semel sink reset flights --yes
    """
    from semel.spark.known_sinks import reset_sink

    greet(bootstrap)
    if not yes:
        raise SemelError(
            f"this forgets what {sink_id!r} has written: {_what_a_reset_does(sink_id)}. Say --yes to do it"
        )
    given_up = reset_sink(bootstrap, sink_id)
    decided = {} if given_up.decided is None else given_up.decided.source_ends
    for tp, end_offset in sorted(decided.items()):
        note(f"was decided up to offset {end_offset} of {tp}")
    for (writer, tp), stored in sorted(given_up.undecided.items()):
        note(f"undecided in {tp}: {counted(stored.digest.count, 'row')} of {writer}")


def _row(history: SinkHistory) -> dict[str, Any]:
    decision = history.decision
    return {
        "sink_id": history.sink_id,
        "sink_epoch": None if history.fence is None else history.fence.sink_epoch,
        "owner": None if history.fence is None else history.fence.owner,
        "query_id": None if decision is None else decision.query_id,
        "batch_id": None if decision is None else decision.batch_id,
        "row_count": None if decision is None else decision.row_count,
        "topics": ", ".join(sorted(history.outputs)),
    }


def _what_a_reset_does(sink_id: str) -> str:
    from semel.core.sink.refusal import NAMED_PREFIX, is_stage

    if is_stage(sink_id):
        return (
            "the flow begins at the start of its inputs, without state, and writes again what is there. Without a "
            "reset, a flow that is run again goes on where it was"
        )
    if sink_id.startswith(NAMED_PREFIX):
        return "a version that is run again is written again"
    return (
        "a query that begins before it writes it again, and one that begins behind leaves rows out. Without a reset, a "
        f"new checkpoint with startingOffsets=sink:{sink_id} does neither"
    )
