"""The works of section ``flows``, in the language of flows and as queries of Spark's over its Kafka connector.

Both read the same topics and write the same rows. A value has some 80 bytes; one row in ten is left out where rows are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.flow import Flow, flow, source

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

COLUMNS: Final = "user string, n bigint, page string"
SHORT: Final = "user string, n bigint"
NUMBERED: Final = "user string, count bigint"
KEPT_OF_TEN: Final = 9


@dataclass(frozen=True, slots=True)
class Asked:
    """One work on its topics; ``folder`` is for the flow's store, or for the query's checkpoint."""

    work: str
    name: str
    sources: list[str]
    targets: list[str]
    folder: str


def rows_of(first: int, count: int, keys: int) -> pa.Table:
    """Rows to fill a topic with: key and value, their users spread over ``keys``."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    users = pc.binary_join_element_wise("u", pa.array(numbers * 2_654_435_761 % keys).cast(pa.string()), "")
    n = pa.array(numbers).cast(pa.string())
    section = pa.array(numbers % 97).cast(pa.string())
    values = pc.binary_join_element_wise(
        '{"user":"', users, '","n":', n, ',"page":"/catalogue/section/', section, '/detail?from=front"}', ""
    )
    return pa.table({"key": n.cast(pa.binary()), "value": values.cast(pa.binary())})


# --- flows --------------------------------------------------------------------------------------------------


def is_kept(row: Any) -> bool:
    return bool(row.n % 10)


def shortened(row: Any) -> dict[str, Any]:
    return {"user": row.user, "n": row.n}


def numbered(count: int, row: Any) -> tuple[int, dict[str, Any]]:
    """The running count, with every row."""
    return count + 1, {"user": row.user, "count": count + 1}


def flow_of(asked: Asked) -> Flow:
    """The flow for a work."""
    streams = [source(topic, json=COLUMNS) for topic in asked.sources]
    rows, target = streams[0], asked.targets[0]
    match asked.work:
        case "spark steps":
            made = rows.where("n % 10 <> 0").select("user", "n").to(target)
        case "python steps":
            made = rows.filter(is_kept).map(shortened, schema=SHORT).to(target)
        case "count":
            made = rows.key_by("user").count().to(target)
        case "fold":
            made = rows.key_by("user").fold(numbered, 0, schema=NUMBERED).to(target)
        case "merged":
            made = streams[0].merge(*streams[1:]).to(target)
        case "side by side":
            outputs = [rows.to(target) for rows, target in zip(streams, asked.targets, strict=True)]
            made = flow(asked.name, *outputs)
        case unknown:
            raise ValueError(unknown)
    return made.named(asked.name)


# --- queries ------------------------------------------------------------------------------------------------


def query_of(work: str, records: DataFrame) -> tuple[DataFrame, str]:
    """The same over the connector's records: rows with key and value, and the output mode."""
    from pyspark.sql import functions

    read = functions.from_json(functions.col("value").cast("string"), COLUMNS).alias("row")
    rows = records.select("key", read).select("key", "row.*")
    match work:
        case "spark steps" | "python steps":
            kept = rows.where("n % 10 <> 0")
            return kept.selectExpr("key", "to_json(struct(user, n)) AS value"), "append"
        case "count":
            counts = rows.groupBy("user").count()
            return counts.selectExpr("user AS key", "to_json(struct(user, count)) AS value"), "update"
        case "fold":
            counts = rows.groupBy("user").applyInPandasWithState(
                _numbered_together, NUMBERED, "count bigint", "append", "NoTimeout"
            )
            return counts.selectExpr("user AS key", "to_json(struct(user, count)) AS value"), "append"
        case _:
            raise ValueError(work)


def _numbered_together(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The running count as pandas is fastest at it, without a loop over rows."""
    import pandas as pd

    count = state.get[0] if state.exists else 0
    for frame in frames:
        behind = count + len(frame)
        yield pd.DataFrame({"user": key[0], "count": np.arange(count + 1, behind + 1)})
        count = behind
    state.update((count,))
