"""Names in the data folder, as Kafka's ``LocalLog``, ``LogFileUtils`` and ``Topic`` have them."""

from __future__ import annotations

import re
from typing import Final

from semel.types import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
KAFKA_SNAPSHOT_SUFFIX: Final = ".snapshot"
SNAPSHOT_SUFFIX: Final = ".producers"
_DELETED_FOLDER_SUFFIX: Final = "-delete"
DRAFT_SUFFIX: Final = ".tmp"
CLEANED_SUFFIX: Final = ".cleaned"  # what compaction writes: nothing yet
SWAP_SUFFIX: Final = ".swap"  # it is whole, and takes the place of the segments that it was made of

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT: Final = "recovery-point"

_PARTITION_FILES: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, RECOVERY_POINT})
_OFFSET_SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    KAFKA_SNAPSHOT_SUFFIX,
    SNAPSHOT_SUFFIX,
)

LOCK: Final = ".lock"
FOLDER_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = "clean-shutdown"
LAST_BOOT: Final = "last-boot"
LEADER_EPOCH: Final = "leader-epoch"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

METADATA_TOPIC: Final = "__semel_metadata"
GROUP_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({METADATA_TOPIC, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

TOPIC_NAME_LENGTH_MAX: Final = 249
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]+")
_FOLDER_NAME = re.compile(r"(.+)-(0|[1-9]\d{0,9})")
_HIDDEN_FOLDER_NAME = re.compile(rf".+\.[0-9a-f]{{32}}{_DELETED_FOLDER_SUFFIX}")
_OFFSET_DIGITS: Final = 20


def file_name(offset: int, suffix: str) -> str:
    """The name of a file that begins at, or stands for, ``offset``."""
    return f"{offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a name of this kind; ``None`` for any other name."""
    digits = name.removesuffix(suffix)
    if (
        len(digits) != _OFFSET_DIGITS
        or not name.endswith(suffix)
        or not digits.isascii()
        or not digits.isdigit()
    ):
        return None
    return int(digits)


def is_partition_file(name: str) -> bool:
    """Whether a partition's folder may hold a file of this name."""
    for suffix in (DRAFT_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    return name in _PARTITION_FILES or any(offset_of(name, suffix) is not None for suffix in _OFFSET_SUFFIXES)


def folder_of(partition: TopicPartition) -> str:
    """The folder of a partition."""
    return f"{partition.topic}-{partition.partition}"


def hidden_folder(folder: str, unique: str) -> str:
    """The name that a deleted partition's folder gets until it is empty; ``unique``: 32 hex digits."""
    return f"{folder[:200]}.{unique}{_DELETED_FOLDER_SUFFIX}"


def is_hidden_folder(name: str) -> bool:
    """Whether :func:`hidden_folder` made this name."""
    return _HIDDEN_FOLDER_NAME.fullmatch(name) is not None


def partition_of(folder: str) -> TopicPartition | None:
    """The partition whose folder this is; ``None`` for any other name."""
    match = _FOLDER_NAME.fullmatch(folder)
    if match is None or topic_name_error(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def topic_name_error(name: str) -> str | None:
    """Why ``name`` cannot be a topic's; ``None`` when it can."""
    if not name:
        return "a topic's name cannot be empty"
    if name in {".", ".."}:
        return "a topic's name cannot be '.' or '..'"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"a topic's name cannot be longer than {TOPIC_NAME_LENGTH_MAX} characters"
    if _TOPIC_NAME.fullmatch(name) is None:
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
