"""Which PySpark the format runs on, and what is said of another one."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Final

from semel.wording import INSTALL_SPARK

PYSPARK_MIN: Final = (4, 2)


def unsupported(version: str | None = None) -> str | None:
    """Why the format cannot run on PySpark ``version`` (the installed one); ``None``: it can.

    Python data sources are older, but the limits of a micro-batch (``latestOffset(start, limit)``), which the
    source needs, came with PySpark 4.2.
    """
    needed = ".".join(map(str, PYSPARK_MIN))
    mend = f"`{INSTALL_SPARK}`"
    if version is None:
        try:
            version = metadata.version("pyspark")
        except metadata.PackageNotFoundError:
            return f"there is no PySpark here: {mend}"
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and tuple(map(int, found.groups())) < PYSPARK_MIN:
        return f"format('semel') needs PySpark {needed} or later, and this is PySpark {version}: {mend}"
    return None
