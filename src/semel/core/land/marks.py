"""The marks of a job: names with a number each, which a commit sets together with the rows that it adds.

A topic's id takes two marks, for a mark is a signed number of 64 bits. Invariant: the marks of two jobs, topics or
partitions never have one name; a job's name holds no slash, and neither does a topic's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from semel.errors import ConfigError
from semel.types import TopicPartition

Marks = Mapping[str, int]
Mark = Callable[[str], int | None]  # a mark of the table as it was read; None: it was never set

ROOT: Final = "semel.land"
NO_TOPIC_ID: Final = "-"  # of brokers that have none
NONE: Final = -1
_JOB: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HALF: Final = 1 << 64


def check_job(job: str) -> None:
    """:class:`ConfigError` for what cannot be a job's name: it is part of marks, and of file names."""
    if not _JOB.fullmatch(job):
        raise ConfigError(f"job {job!r}: a name is at most 100 letters, digits, dots, dashes and underscores")


def epoch_mark(job: str) -> str:
    """Who holds the job: each start raises it."""
    return f"{ROOT}/{job}"


def files_mark(job: str) -> str:
    """The highest number of a file that was committed."""
    return f"{ROOT}/{job}/files"


def offset_mark(job: str, source: TopicPartition, topic_id: str | None) -> str:
    """The offset behind the last row landed."""
    return f"{ROOT}/{job}/{source.topic}/{topic_id or NO_TOPIC_ID}/{source.partition}"


def batch_marks(
    job: str, source: TopicPartition, topic_id: str | None, last_offset: int = NONE, crc: int = NONE
) -> dict[str, int]:
    """The batch that the last row landed came of: where it ends, and its CRC."""
    name = offset_mark(job, source, topic_id)
    return {f"{name}/batch-end": last_offset, f"{name}/batch-crc": crc}


def held_batch(mark: Mark, job: str, source: TopicPartition, topic_id: str | None) -> tuple[int, int] | None:
    """Where that batch ends, and its CRC; ``None``: it is not known."""
    last_offset, crc = (mark(name) for name in batch_marks(job, source, topic_id))
    return None if last_offset in (None, NONE) or crc is None else (last_offset, crc)


def topic_marks(job: str, topic: str, topic_id: str | None) -> dict[str, int]:
    """Which topic the name means, for this job."""
    high, low = divmod(0 if topic_id is None else UUID(topic_id).int, _HALF)
    return {_high(job, topic): _signed(high), _low(job, topic): _signed(low)}


def held_topic_id(mark: Mark, job: str, topic: str) -> tuple[bool, str | None]:
    """Whether the job has begun with a topic of this name, and that one's id, if it has one."""
    high, low = mark(_high(job, topic)), mark(_low(job, topic))
    if high is None or low is None:
        return False, None
    number = (high % _HALF) * _HALF + low % _HALF
    return True, str(UUID(int=number)) if number else None


def _high(job: str, topic: str) -> str:
    return f"{ROOT}/{job}/{topic}/id-high"


def _low(job: str, topic: str) -> str:
    return f"{ROOT}/{job}/{topic}/id-low"


def _signed(half: int) -> int:
    return half - _HALF if half >= _HALF // 2 else half


# --- files ----------------------------------------------------------------------------------------------


def file_name(job: str, epoch: int, number: int) -> str:
    """A data file's: no two copies of a job share an epoch, and none uses a number twice."""
    return f"semel-{job}-{epoch}-{number}.parquet"


def merged_name(job: str, epoch: int, manifest: int, number: int) -> str:
    """That of a file made of smaller ones, on the way from ``manifest`` to the next."""
    return f"semel-{job}-{epoch}-m{manifest}-{number}.parquet"


def epoch_of(name: str, job: str) -> int | None:
    """The epoch of the copy of ``job`` that wrote a file of this name; ``None``: none did."""
    found = re.fullmatch(rf"semel-{re.escape(job)}-(\d+)-(?:m\d+-)?\d+\.parquet", name)
    return int(found[1]) if found else None


def was_never_committed(name: str, job: str, epoch: int, committed: int) -> bool:
    """Whether that is sure by the name alone, and will stay so, now that ``epoch`` holds the job.

    Every commit adds all files that were begun since the one before, and its mark is the highest of their numbers. A
    lower number of an older epoch proves nothing (a later commit may have passed it).
    """
    found = re.fullmatch(rf"semel-{re.escape(job)}-(\d+)-(\d+)\.parquet", name)
    return found is not None and int(found[1]) < epoch and int(found[2]) > committed
