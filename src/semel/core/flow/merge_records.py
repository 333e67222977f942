"""The records of a merge log, and their bytes; what counts of them says :mod:`semel.core.flow.merge`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from semel.types import NO_LEADER_EPOCH

FORMAT_VERSION: Final = 1


class InputTopic(NamedTuple):
    """A topic that is merged. One that was made anew under the name is another one."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class MergeInput:
    """An input as the planner of a HEAD found it."""

    topic: str
    topic_id: str
    partition_count: int

    @property
    def key(self) -> InputTopic:
        """What its offsets are known by."""
        return InputTopic(self.topic, self.topic_id)


@dataclass(frozen=True, slots=True)
class Head:
    """A planner took this partition over. ``owner`` says who, for the error of the one that it overtakes."""

    epoch: int  # the sink's, of the planner's driver
    owner: str
    inputs: tuple[MergeInput, ...]
    starts: Mapping[InputTopic, int]  # log start offsets of inputs that were never seen before


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Offsets ``from_offset`` to ``end_offset`` (exclusive) of an input; never empty."""

    topic: str
    topic_id: str
    from_offset: int
    end_offset: int
    # Under it the log had all rows up to ``from_offset``; a log that was cut since says so. Else not known.
    last_leader_epoch: int = NO_LEADER_EPOCH

    @property
    def key(self) -> InputTopic:
        """Which input."""
        return InputTopic(self.topic, self.topic_id)


@dataclass(frozen=True, slots=True)
class Entry:
    """The next ranges, to be read one after the other; or a TICK: no range, and for how long there was none."""

    epoch: int
    number: int  # how many entries that count stand before it
    ranges: tuple[EntryRange, ...]
    ends: Mapping[InputTopic, int]  # of every input ever seen, behind this entry
    tick_ms: int | None = None
    is_ahead: bool = False  # of tables only, and no row of another input was recorded before
    leader_epochs: Mapping[InputTopic, int] = field(
        default_factory=dict
    )  # that go with ``ends``, where known


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry that counts, and where it stands."""

    offset: int
    entry: Entry


MergeRecord = Head | Entry


def encode(record: MergeRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    match record:
        case Head():
            key: list[Any] = ["head", record.epoch]
            body: dict[str, Any] = {
                "owner": record.owner,
                "inputs": [[each.topic, each.topic_id, each.partition_count] for each in record.inputs],
                "starts": _offsets(record.starts),
            }
        case Entry():
            key = ["entry", record.epoch, record.number]
            body = {
                "number": record.number,
                "ranges": [
                    [each.topic, each.topic_id, each.from_offset, each.end_offset] for each in record.ranges
                ],
                "ends": _offsets(record.ends),
                "tick_ms": record.tick_ms,
                "ahead": record.is_ahead,
            }
            if record.leader_epochs:
                body["leader_epochs"] = _offsets(record.leader_epochs)
                body["last_leader_epochs"] = [each.last_leader_epoch for each in record.ranges]
    return _json(key), _json({"v": FORMAT_VERSION, "kind": key[0], "epoch": record.epoch} | body)


def read_record(value: bytes | None) -> MergeRecord | None:
    """The record; ``None`` for one that cannot be a planner's, ``ValueError`` for one that may be and cannot be read.

    Anybody may write to the topic. What is of a planner, in this format or a later one, is a JSON object with the
    format's number.
    """
    try:
        body = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or "v" not in body:
        return None
    if body["v"] != FORMAT_VERSION:
        raise ValueError(f"it is of format {body['v']}, and this semel knows {FORMAT_VERSION}")
    if body.get("kind") not in ("head", "entry"):
        raise ValueError(f"its kind {body.get('kind')!r} is not known")
    try:
        return _read(body)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its fields are not those of format {FORMAT_VERSION} ({error!r})") from None


def _read(body: dict[str, Any]) -> MergeRecord:
    epoch = _number(body["epoch"])
    if body["kind"] == "head":
        inputs = tuple(
            MergeInput(topic, topic_id, _number(count)) for topic, topic_id, count in body["inputs"]
        )
        return Head(epoch, body["owner"], inputs, _read_offsets(body["starts"]))
    lasts = body.get("last_leader_epochs", [NO_LEADER_EPOCH] * len(body["ranges"]))
    ranges = tuple(
        EntryRange(topic, topic_id, _number(from_offset), _number(end_offset), _number(last))
        for (topic, topic_id, from_offset, end_offset), last in zip(body["ranges"], lasts, strict=True)
    )
    tick_ms = body["tick_ms"] if body["tick_ms"] is None else _number(body["tick_ms"])
    ends = _read_offsets(body["ends"])
    leader_epochs = _read_offsets(body.get("leader_epochs", []))
    return Entry(epoch, _number(body["number"]), ranges, ends, tick_ms, bool(body["ahead"]), leader_epochs)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _offsets(offsets: Mapping[InputTopic, int]) -> list[list[Any]]:
    return [[key.topic, key.topic_id, offset] for key, offset in sorted(offsets.items())]


def _read_offsets(rows: list[list[Any]]) -> dict[InputTopic, int]:
    return {InputTopic(topic, topic_id): _number(offset) for topic, topic_id, offset in rows}
