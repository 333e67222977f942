"""How a source task tells a sink task of the same Spark task what it reads.

``read()`` and ``write()`` of one task run in two worker processes of one executor. A sink cannot see the
plan, but a note that ``read()`` leaves under the task attempt's id is there by the time ``write()`` sees
its first row (or the end); after a shuffle there is none, after a coalesce there are several.

Notes live under the temporary folder, by run of the query (a fresh UUID each) and micro-batch. Those of
micro-batches two back are dropped by later reads, so a source without a semel sink leaves nothing behind.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.core.sink.ranges import SourceRange

_KEPT_BATCHES: Final = 2
_ASIDE: Final = ".aside"  # beside the notes, which have no dot in front


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Which attempt of which task of which micro-batch this process runs."""

    query_id: str
    run_id: str
    batch_id: int
    stage_id: int
    spark_partition: int
    attempt_number: int
    task_attempt_id: int


def this_task() -> TaskIdentity | None:
    """The running task of a streaming query; ``None`` outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if context is None or batch_id is None:
        return None
    return TaskIdentity(
        query_id=str(context.getLocalProperty("sql.streaming.queryId")),
        run_id=str(context.getLocalProperty("spark.jobGroup.id")),
        batch_id=int(batch_id),
        stage_id=context.stageId(),
        spark_partition=context.partitionId(),
        attempt_number=context.attemptNumber(),
        task_attempt_id=context.taskAttemptId(),
    )


def leave_note(source_range: SourceRange, work: object = None) -> None:
    """Say what this task reads, before its first row is handed out; ``work`` is for :func:`read_work`."""
    task = this_task()
    if task is None:
        return
    folder = _made(task)
    name = uuid.uuid4().hex
    draft = folder / f".{name}"
    draft.write_bytes(pickle.dumps((source_range, work)))
    draft.rename(folder / name)
    _drop_old(folder.parent.parent, task.batch_id)


def lay_aside(piece: bytes, kind: str) -> None:
    """Hand bytes of a source task to the sink of the same task, past all that lies between them."""
    task = this_task()
    if task is None:
        return
    with (_made(task) / f"{_ASIDE}-{kind}").open("ab") as file:
        file.write(len(piece).to_bytes(8, "big") + piece)


class LaidAside:
    """Those of one kind, in their order.

    What was laid aside before a row was handed out is there once the sink sees the row; all of it, behind its last row.
    """

    def __init__(self, task: TaskIdentity, kind: str) -> None:
        self._task, self._kind, self._read_bytes = task, kind, 0

    def more(self) -> Iterator[bytes]:
        """Those that have come since it was asked last."""
        try:
            file = (_folder(self._task) / f"{_ASIDE}-{self._kind}").open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._read_bytes)
            while len(head := file.read(8)) == 8:
                size_bytes = int.from_bytes(head, "big")
                if len(piece := file.read(size_bytes)) < size_bytes:
                    return  # it is being written, for rows that are still to come
                self._read_bytes += 8 + size_bytes
                yield piece


def read_notes(task: TaskIdentity) -> list[SourceRange]:
    """The notes of ``task``, so far."""
    folder = _folder(task)
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    return [_load(path)[0] for path in paths]


def read_work(task: TaskIdentity) -> object:
    """What the one note of ``task`` has beside its range."""
    (path,) = (path for path in _folder(task).iterdir() if not path.name.startswith("."))
    return _load(path)[1]


def others_read(task: TaskIdentity) -> bool:
    """Whether other tasks of the micro-batch have left notes on this machine."""
    own = _folder(task)
    try:
        return any(folder != own for folder in own.parent.iterdir())
    except FileNotFoundError:
        return False


def earlier_stage_read(task: TaskIdentity) -> bool:
    """Whether tasks of another stage of the micro-batch have left notes on this machine: a shuffle is in between."""
    own = _folder(task)
    try:
        return any(_stage_of(folder) != task.stage_id for folder in own.parent.iterdir())
    except FileNotFoundError:
        return False


def drop_notes(task: TaskIdentity) -> None:
    """The task is over."""
    shutil.rmtree(_folder(task), ignore_errors=True)


def _load(path: Path) -> tuple[SourceRange, object]:
    note, work = pickle.loads(path.read_bytes())  # our own file, in a folder that only this user can write
    assert isinstance(note, SourceRange)
    return note, work


def _made(task: TaskIdentity) -> Path:
    folder = _folder(task)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _folder(task: TaskIdentity) -> Path:
    root = Path(tempfile.gettempdir()) / f"semel-notes-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} belongs to another user")
    return root / task.run_id / str(task.batch_id) / f"{task.stage_id}.{task.task_attempt_id}"


def _stage_of(folder: Path) -> int:
    return int(folder.name.partition(".")[0])


def _drop_old(run: Path, batch_id: int) -> None:
    for folder in run.iterdir():
        if folder.name.isdigit() and int(folder.name) < batch_id - _KEPT_BATCHES:
            shutil.rmtree(folder, ignore_errors=True)
