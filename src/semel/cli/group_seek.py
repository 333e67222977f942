"""Where ``semel group seek`` sets a group's offsets to: what there is, and what was asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.cli.offsets import Point, place, timestamp_needed
from semel.errors import BrokerError, ErrorCode, SemelError
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel.client.blocking import Cluster


@dataclass(frozen=True, slots=True)
class Target:
    """One of the three."""

    point: Point | None
    shift: int | None
    to_group: str | None


@dataclass(frozen=True, slots=True)
class Move:
    """A partition's committed offset (None: it has none), and the one that it is to have."""

    tp: TopicPartition
    before: int | None
    after: int


def planned(
    cluster: Cluster, group: str, target: Target, topics: list[str] | None, partitions: list[int] | None
) -> list[Move]:
    """What is to be set, by partition; a shift, or another group's offset, needs one to be there."""
    before = _committed(cluster, group)
    like = _committed(cluster, target.to_group) if target.to_group is not None else {}
    chosen = _chosen(cluster, group, topics, before.keys() | like.keys(), partitions)
    starts = cluster.list_offsets(dict.fromkeys(chosen, EARLIEST_TIMESTAMP))
    ends = cluster.list_offsets(dict.fromkeys(chosen, LATEST_TIMESTAMP))
    found: dict[TopicPartition, int] = {}
    if target.point is not None:
        timestamp_ms = timestamp_needed(target.point, int(time.time() * 1000))
        if timestamp_ms is not None:
            listed = cluster.list_offsets(dict.fromkeys(chosen, timestamp_ms))
            found = {tp: at.offset for tp, at in listed.items() if at.offset >= 0}
    moves = []
    for tp in chosen:
        start_offset, end_offset = starts[tp].offset, ends[tp].offset
        if target.point is not None:
            after = place(
                target.point, start_offset=start_offset, end_offset=end_offset, found_offset=found.get(tp)
            )
        else:
            from_offset = like.get(tp) if target.shift is None else before.get(tp)
            if from_offset is None:
                if partitions:  # it was asked for by its number
                    raise SemelError(f"{tp}: {_nothing(group, target)}")
                continue
            after = min(max(from_offset + (target.shift or 0), start_offset), end_offset)
        moves.append(Move(tp, before.get(tp), after))
    if not moves:
        raise SemelError(_nothing(group, target))
    return moves


def _committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    try:
        # A transaction that is open with another one does not get in front: the newer commit counts.
        found = cluster.committed_offsets(group, require_stable=False)
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {tp: at.offset for tp, at in found.items() if at.offset >= 0}


def _chosen(
    cluster: Cluster,
    group: str,
    topics: list[str] | None,
    known: set[TopicPartition],
    partitions: list[int] | None,
) -> list[TopicPartition]:
    names = sorted(set(topics or ()) or {tp.topic for tp in known})
    if not names:
        raise SemelError(f"group {group!r} has committed nothing: name the topics with -t")
    described = cluster.metadata(names).topics
    missing = [name for name in topics or () if described[name].error_code]
    if missing:
        raise SemelError(f"there is no topic {missing[0]!r}: semel topic list shows what there is")
    lacking = [
        f"{name} has no partition {number}"
        for name in names
        for number in partitions or ()
        if described[name].partitions and number not in described[name].partitions
    ]
    if lacking:
        raise SemelError(f"{'; '.join(lacking)}: nothing was changed. Name topics that have it with -t")
    chosen = [
        TopicPartition(name, number)
        for name in names
        for number in sorted(described[name].partitions)
        if not partitions or number in partitions
    ]
    if not chosen:
        raise SemelError(f"no such partition in {', '.join(names)}: nothing was changed")
    return chosen


def _nothing(group: str, target: Target) -> str:
    if target.to_group is not None:
        return f"group {target.to_group!r} has committed nothing there: nothing was changed"
    return f"group {group!r} has committed nothing there that could be shifted: nothing was changed. Use --to"
