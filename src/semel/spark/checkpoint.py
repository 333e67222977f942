"""What a query's checkpoint says of its plan, which nobody shows to the sink.

A plan with state has it under ``state/``: Spark writes what there is of it before the first micro-batch's tasks run.
It can be looked at only where the checkpoint is in a file system of this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from semel.core.sink.refusal import Refusal
from semel.core.sink.task import keeps_state

_OF_ALL_QUERIES: Final = "spark.sql.streaming.checkpointLocation"


def judge_plan(checkpoint: str) -> Refusal | None:
    """Why a streaming sink cannot take the query of ``checkpoint``, a path or a URI; ``None``: no reason is seen."""
    folder = _local(checkpoint)
    if folder is None or not (folder / "state").is_dir():
        return None
    return keeps_state(str(folder))


def checkpoint_of_session(query_name: str) -> str:
    """Of the running task's query, which has no option ``checkpointLocation``; empty where it is not known."""
    location = _of_this_session()
    return f"{location}/{query_name}" if location and query_name else ""


def _of_this_session() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(_OF_ALL_QUERIES) or ""


def _local(checkpoint: str) -> Path | None:
    if not checkpoint:
        return None
    address = urlparse(checkpoint)
    if address.scheme == "file":
        return Path(unquote(address.path))
    return None if address.scheme else Path(checkpoint)
