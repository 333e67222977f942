"""``semel copy``: topics from cluster to cluster, exactly once."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semel.cli.options import DeadLetterTopic
from semel.cli.output import EXIT_INTERRUPTED, note
from semel.errors import ConfigError
from semel.wording import counted

if TYPE_CHECKING:
    from semel.copy import Copied

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_RATE: Final = re.compile(r"(\d{1,12})\s*([KMG]?)B?(?:/s)?", re.IGNORECASE)
_NOTE_EVERY_MS: Final = 10_000  # where there is no terminal


def copy(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="What to copy.", show_default=False)
    ] = None,
    source: Annotated[
        str, typer.Option("--from", metavar="H:P", help="A server of the source.", show_default=False)
    ] = "",
    destination: Annotated[
        str, typer.Option("--to", metavar="H:P", help="A server of the destination.", show_default=False)
    ] = "",
    name: Annotated[
        str,
        typer.Option("--name", metavar="JOB", help="The job: run again under it, it goes on where it was."),
    ] = "copy",
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Copy the topics with such names, also those that are made later.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="The copy of t is TEXT and t.", show_default="none")
    ] = "",
    start: Annotated[
        str, typer.Option(metavar="earliest|latest", help="Where a new job begins in topics that are there.")
    ] = "earliest",
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop when everything that is there now is copied.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Copy only these rows: SQL over key, value, partition, offset and timestamp_ms, "
            "as \"value ->> 'delay' > 60\" of a JSON value.",
            show_default=False,
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Copy rows that a writer has doubled once, by the header of semel.spark.lineage."
        ),
    ] = False,
    rate: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="At most so much a second, as 500K or 20M.", show_default=False),
    ] = None,
    on_data_loss: Annotated[
        str,
        typer.Option(
            metavar="stop|continue", help="What to do where the source has lost rows that were not copied."
        ),
    ] = "stop",
    append: Annotated[
        bool,
        typer.Option("--append", help="Let a new job write behind what others have written to an output."),
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="G[,G]",
            help="Commit at the destination what these consumer groups have read.",
            show_default=False,
        ),
    ] = None,
    dead_letter: DeadLetterTopic = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="H:P", help="Serve its progress for Prometheus.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Copy topics from cluster to cluster, each row once and in its order; semel or Apache Kafka at either end.

    Partitions, keys, headers, timestamps and the topics' settings stay; only committed rows come. The job's place is
    kept at the destination, in the topic __semel_copy.JOB, so killed anywhere and run again, on any machine, it goes on
    where it was, and nothing is lost or doubled. Of two at once the older one stops, and says who has taken over.

    It runs until SIGTERM or Ctrl-C, and ends with exit code 0 once what it has begun is stored (130 where --until-end
    was cut short).

    Example: semel copy --from localhost:9092 --to localhost:9093 clicks orders
    """
    from semel.cli.connect import await_greeting
    from semel.copy import CopyPlan, run_copy
    from semel.copy.run import AWAY_MS_MAX
    from semel.signals import stopped_by_signals
    from semel.spark.options import Connection

    if not source or not destination:
        raise ConfigError("name both ends: --from H:P --to H:P. Nothing was copied")
    if on_data_loss not in ("stop", "continue"):
        raise ConfigError(f"--on-data-loss is stop or continue, not {on_data_loss!r}. Nothing was copied")
    plan = CopyPlan(
        name,
        Connection(source, f"semel-copy-{name}"),
        Connection(destination, f"semel-copy-{name}"),
        tuple(dict.fromkeys(topics or ())),
        pattern,
        prefix=prefix,
        start=start,
        appends=append,
        goes_on_after_loss=on_data_loss == "continue",
        groups=() if groups is None else tuple(filter(None, (each.strip() for each in groups.split(",")))),
        where=where,
        cleans=clean,
        bytes_per_s=None if rate is None else _bytes_per_s(rate),
        dead_letter_topic=dead_letter,
    )
    for bootstrap in (source, destination):
        await_greeting(bootstrap, AWAY_MS_MAX)
    stop = threading.Event()
    shown = _Shown(quiet)
    try:
        with ExitStack() as stack:
            if metrics is not None:
                from semel.copy.metrics import serve_metrics

                stack.callback(serve_metrics(metrics, name, lambda: shown.newest))
            was_stopped = stack.enter_context(stopped_by_signals(stop.set))
            copied = run_copy(plan, until_end=until_end, stop=stop, told=shown.show)
    except KeyboardInterrupt:
        note("semel: interrupted; what was begun may be stored in part, and the next run goes on behind it")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        shown.end()
    if not quiet:
        note(
            f"semel: copied {counted(copied.rows, 'row')} ({copied.size_bytes:,} bytes) of "
            f"{counted(copied.partitions, 'partition')} in {copied.elapsed_ms / 1000:.1f} s"
        )
    if until_end and was_stopped():
        raise typer.Exit(EXIT_INTERRUPTED)


def _bytes_per_s(text: str) -> int:
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"--rate {text!r} is no number of bytes a second, as 500K or 20M. Nothing was copied"
        )
    return int(found[1]) * _UNITS[found[2].upper()]


class _Shown:
    """A line that is written anew on a terminal; else one now and then, for a log."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._is_terminal = quiet, sys.stderr.isatty()
        self.newest: Copied | None = None
        self._before: Copied | None = None
        self._is_open = False

    def show(self, copied: Copied) -> None:
        self.newest = copied
        before = self._before
        passed_ms = copied.elapsed_ms - (0 if before is None else before.elapsed_ms)
        if self._quiet or (not self._is_terminal and passed_ms < _NOTE_EVERY_MS):
            return
        self._before = copied
        rows = copied.rows - (0 if before is None else before.rows)
        line = (
            f"{copied.rows:,} rows copied, {rows * 1000 // max(1, passed_ms):,} rows/s, "
            f"{copied.lag:,} offsets behind, {counted(copied.partitions, 'partition')}"
        )
        if not self._is_terminal:
            note(f"semel: {line}")
            return
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()
        self._is_open = True

    def end(self) -> None:
        if self._is_open:
            sys.stderr.write("\n")
            self._is_open = False
