"""Texts of the partition column that no folder can be named by: such rows are bad ones, such topics are refused.

The folder of null has a name, too, and readers take a text that is the same for null. And a file system's names end at
255 bytes, of which a text takes up to three for each of its own (it is escaped): a job that met a longer one would stop
at it, at every start. So its row goes to the folder of null, as any that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.land.columns import ERROR, TOPIC
from semel.core.land.partitioning import FOLDER_BYTES_MAX, unfit
from semel.errors import ConfigError

_CUT: Final = "..."


def fitting(
    values: pa.Table, bad: Sequence[tuple[int, str]], column: str | None
) -> tuple[pa.Table, Sequence[tuple[int, str]]]:
    """The good rows whose ``column`` names a folder; the others are bad ones now, by index. Errors that do are cut."""
    if column == ERROR:
        return values, [(index, _cut(why)) for index, why in bad]
    if column is None or column not in values.column_names or not values.num_rows:
        return values, bad
    by = values.column(column)
    if not pa.types.is_string(by.type):
        return values, bad
    whys = {text: why for text in pc.unique(by).to_pylist() if (why := unfit(column, text)) is not None}
    if not whys:
        return values, bad
    is_bad = np.zeros(values.num_rows + len(bad), bool)
    is_bad[[index for index, _ in bad]] = True
    places = np.flatnonzero(~is_bad)
    is_unfit = pc.is_in(by, pa.array(whys, by.type)).to_numpy()
    found = zip(places[is_unfit].tolist(), by.filter(pa.array(is_unfit)).to_pylist(), strict=True)
    more = [(index, f"column {column!r} cannot part rows: {whys[text]}") for index, text in found]
    return values.filter(pa.array(~is_unfit)), sorted([*bad, *more])


def check_topics(topics: Iterable[str], column: str | None) -> None:
    """:class:`ConfigError` for a topic whose name names no folder: none of its rows would be good."""
    for topic in topics if column == TOPIC else ():
        why = unfit(TOPIC, topic)
        if why is not None:
            raise ConfigError(
                f"--partition-by {TOPIC} cannot part rows of topic {topic!r}: {why}. Nothing was landed, and the job "
                f"was not taken over. Land the topic into a table of its own, without --partition-by {TOPIC}"
            )


def _cut(text: str) -> str:
    if unfit(ERROR, text) is None:
        return text
    kept = text[:FOLDER_BYTES_MAX]
    while unfit(ERROR, kept + _CUT) is not None:
        kept = kept[:-1]
    return kept + _CUT
