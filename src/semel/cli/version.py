"""``semel version``: what runs here."""

from __future__ import annotations

import platform

import typer

from semel import __version__
from semel.cli.options import OutputFormat
from semel.cli.output import Format, print_document


def version(output_format: OutputFormat = Format.TABLE) -> None:
    """Print the versions of semel, Python and the libraries below it.

    Example: semel version --format json
    """
    print_document(
        {"semel": __version__, "python": platform.python_version(), **_libraries()},
        output_format,
    )


def print_and_leave(asked: bool) -> None:
    """``semel --version``: the one line that scripts look for."""
    if asked:
        typer.echo(f"semel {__version__}")
        raise typer.Exit


def _libraries() -> dict[str, str | None]:
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for name in ("pyarrow", "numpy", "kio", "pyspark"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions
