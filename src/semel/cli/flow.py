"""``semel flow``: write, check, explain, test and run files with flows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semel.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, OutputFormat
from semel.cli.output import EXIT_INTERRUPTED, Format, note, print_document, print_rows
from semel.errors import ConfigError
from semel.wording import counted

app = typer.Typer(help="Flows: exactly-once pipelines of several steps.", no_args_is_help=True)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A Python file whose top-level variables are flows.", show_default=False
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="This flow only.", show_default="the only one"),
]


@app.command("init")
def init(
    file: File,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="H:P", help="Make the example's topics on this server, too."
        ),
    ] = None,
) -> None:
    """Write an example to begin with: a flow that counts words, and its test.

    A file that is there already is left as it is. With -b the topics that the flow reads and writes are made.

    Example: semel flow init counts.py
    """
    from semel.flow.example import OUTPUT_TOPIC, SOURCE_TOPIC, example_text

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(example_text(file))
    except FileExistsError:
        raise ConfigError(f"{file} is there already: nothing was written") from None
    note(f"wrote {file}; semel flow test {file} runs its test")
    if bootstrap is not None:
        _make_topics(bootstrap, (SOURCE_TOPIC, OUTPUT_TOPIC))


@app.command("check")
def check(file: File, name: Name = None, output_format: OutputFormat = Format.TABLE) -> None:
    """Build and plan the flows of a file. Needs no server, and nothing is run.

    Exit code 1 if a step makes no sense: the message names it, the line it was written in, and what to do.

    Example: semel flow check counts.py
    """
    from semel.flow.files import load_flows

    found = load_flows(file)
    flows = list(found.flows.values()) if name is None else [found.flow(name)]
    rows = [
        {
            "flow": plan.flow,
            "stages": len(plan.stages),
            "reads": list(plan.source_topics),
            "writes": list(plan.output_topics),
            "own_topics": len(plan.own_topics),
            "needs_spark": plan.needs_spark,
        }
        for plan in (flow.plan() for flow in flows)
    ]
    print_rows(rows, ["flow", "stages", "reads", "writes", "own_topics", "needs_spark"], output_format)


@app.command("explain")
def explain(file: File, name: Name = None, output_format: OutputFormat = Format.TABLE) -> None:
    """Show a flow's stages: what each reads and writes, the pattern that makes it exactly once, and why that one.

    Example: semel flow explain counts.py
    """
    import sys

    from semel.flow.explain import explain_document, explain_text
    from semel.flow.files import load_flows

    plan = load_flows(file).flow(name).plan()
    if output_format is Format.TABLE:
        sys.stdout.write(explain_text(plan))
    else:
        print_document(explain_document(plan), output_format)


@app.command("test")
def test(file: File) -> None:
    """Run the tests of a file: its functions test_*, on a log of their own.

    Exit code 1 if one fails. Java is started only where a flow has steps of Spark's.

    Example: semel flow test counts.py
    """
    from semel.local import starting_log

    with starting_log(durability="page-cache") as server:  # while all that runs a flow is imported
        from semel.flow.pandas_later import import_pandas_later

        import_pandas_later()
        from semel.flow.testing import run_tests

        passed = run_tests(file, server=server)
    if not passed:
        raise typer.Exit(1)


@app.command("run")
def run(
    file: File,
    name: Name = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when everything that is there now has been worked on.")
    ] = False,
    here: Annotated[
        bool, typer.Option("--here", help="In this process, without Spark: for flows of Python's steps.")
    ] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="H:P", help="Serve its progress for Prometheus.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Run a flow until it is stopped, and show a line for each stage while it works.

    Stopped in any way and run again, it goes on where it was: nothing is lost and nothing doubled. On SIGTERM or
    Ctrl-C it ends behind the micro-batch that it is in, with exit code 0 (130 where --once was cut short); a second
    one does not wait for that.

    Example: semel flow run counts.py -b localhost:9092
    """
    from semel.cli.connect import greet
    from semel.flow.files import load_flows
    from semel.flow.run import run_flow, runs_here

    plan = load_flows(file).flow(name).plan()
    is_without_spark = not here and runs_here(plan)
    greet(bootstrap)
    if not quiet:
        where = "in this process" if here else "on Spark, which takes a while to start"
        if is_without_spark:
            where = "in this process, for it needs no Spark, and there is none (--here says it, too)"
        until = "to the end of what is there" if once else "until Ctrl-C"
        note(f"semel: flow {plan.flow}, {counted(len(plan.stages), 'stage')}, {until}, {where}")
    try:
        ended = run_flow(plan, bootstrap, here=here, once=once, show=not quiet, metrics=metrics)
    except KeyboardInterrupt:
        note("semel: interrupted; what was begun may stand there undecided, and the next run meets it")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if ended:
        return
    note("semel: stopped behind a micro-batch: what was begun is decided, and the next run goes on there")
    if once:
        raise typer.Exit(EXIT_INTERRUPTED)


def _make_topics(bootstrap: str, topics: tuple[str, ...]) -> None:
    from semel.cli.connect import open_cluster
    from semel.errors import BrokerError, ErrorCode
    from semel.flow.plan import PARTITION_COUNT

    with open_cluster(bootstrap) as cluster:
        for topic in topics:
            try:
                cluster.create_topics({topic: PARTITION_COUNT})
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                note(f"topic {topic} is there already")
                continue
            note(f"made topic {topic} with {counted(PARTITION_COUNT, 'partition')}")
