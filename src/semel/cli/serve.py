"""``semel serve``: run the log server in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from semel.cli.options import Overrides


def serve(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="H:P",
            help="Address to listen on; port 0 takes a free one, no port is 9092.",
            show_default="127.0.0.1:9092",
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(metavar="D", help="The data folder, made if need be.", show_default="semel-data"),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="F", help="Settings as TOML.")] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="fsync|page-cache",
            help="acks=all and acks=1 are answered once the disk has the rows, or once the kernel has.",
            show_default="fsync",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="H:P", help="Serve Prometheus metrics on this address, and /healthz."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="plain|json", help="Form of the log lines.", show_default="plain")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Run the log server.

    It runs until SIGTERM or Ctrl-C; one line on stdout says when and where it is ready. Settings come from
    flags, -X name=value, SEMEL_* in the environment and the file of --config, in this order of precedence.
    Names are Kafka's where Kafka has the setting.

    Example: semel serve --data-dir data -X log.segment.bytes=67108864
    """
    from semel.config import load_settings, unknown_in
    from semel.server.main import run

    flags = {
        "listen": listen,
        "data_dir": data_dir,
        "durability": durability,
        "metrics": metrics,
        "log_format": log_format,
    }
    settings = load_settings(
        flags=flags, overrides=overrides or (), environment=os.environ, config_file=config
    )
    raise typer.Exit(run(settings, unknown_in(os.environ)) or 0)
