"""The entry point: builds the command tree and turns every expected failure into one line on stderr.

Exit codes: 0 done; 1 failed (``audit``: the proof does not hold); 2 wrong usage; 130 interrupted. A traceback
is shown for a defect of semel only, never for a :class:`~semel.errors.SemelError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from semel.cli import (
    audit,
    consume,
    copy,
    demo,
    flow,
    group,
    land,
    produce,
    producer,
    serve,
    sim,
    sink,
    topic,
    txn,
    version,
)
from semel.cli.output import EXIT_INTERRUPTED, note
from semel.errors import ConfigError, ConnectionLost, SemelError
from semel.wording import one_line

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

EPILOG = "Data goes to stdout, notes to stderr. Exit code 0: done, 1: failed, 2: wrong usage."

app = typer.Typer(
    name="semel",
    help="Event streams that arrive exactly once: a log server, its tools, and the proof.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: square brackets are ours, and paragraphs are wrapped
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    version_asked: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=version.print_and_leave,
            is_eager=True,
            help="Show the version, and leave.",
        ),
    ] = False,
) -> None: ...


app.command("serve")(serve.serve)
app.add_typer(topic.app, name="topic")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(producer.app, name="producer")
app.add_typer(txn.app, name="txn")
app.add_typer(sink.app, name="sink")
app.add_typer(flow.app, name="flow")
app.command("copy")(copy.copy)
app.command("land")(land.land)
app.command("demo")(demo.demo)
app.command("audit")(audit.audit)
app.command("sim")(sim.sim)
app.command("version")(version.version)


# Some versions of typer carry a copy of click: the base of usage errors is found, not imported.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        result = app(
            args=None if arguments is None else list(arguments), prog_name="semel", standalone_mode=False
        )
    except _UsageError as error:
        return _refuse_usage(error)
    except ConfigError as error:
        note(f"semel: {one_line(error)}")
        return EXIT_USAGE
    except ConnectionLost as error:
        advice = (
            "look at the name after -b, or in SEMEL_BOOTSTRAP"
            if error.no_such_host
            else "is it running? (semel serve; or name another with -b H:P)"
        )
        note(f"semel: {one_line(error)}" + ("" if error.not_kafka else f"; {advice}"))
        return EXIT_FAILED
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except SystemExit as exit_request:  # the command library's own way out of a broken pipe
        if not isinstance(exit_request.__context__, BrokenPipeError):
            raise
        _discard_stdout()
        return 0
    except (SemelError, OSError) as error:
        note(f"semel: {one_line(error)}")
        return EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        note("semel: interrupted")
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0


def _refuse_usage(error: Any) -> int:
    """A usage error in one line; a group without a command shows its help."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        note(message)
    elif message := one_line(message):
        path = error.ctx.command_path if getattr(error, "ctx", None) else "semel"
        note(f"{path}: {message.rstrip('.')}. Try: {path} --help")
    return EXIT_USAGE


def main() -> None:
    """The console script."""
    code = run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    sys.exit(code)


def _discard_stdout() -> None:
    """The reader has gone (``| head``): no failure; the interpreter's flush at exit must not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
