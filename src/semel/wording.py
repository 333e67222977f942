"""How messages speak of numbers, of other errors, and of what is not installed."""

from __future__ import annotations

import re
from typing import Final

# By the libraries' own names: on an index, whoever registers this project's name would own all who follow the advice.
INSTALL_LAND: Final = "pip install deltalake fastavro"
INSTALL_SPARK: Final = "pip install 'pyspark>=4.2,<4.4' 'pandas<3'"
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")  # of libraries that write for a terminal


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def one_line(error: object) -> str:
    """What ``error`` says, on one line and without colours; its class where it says nothing."""
    return " ".join(_COLOURS.sub("", str(error)).split()) or type(error).__name__
