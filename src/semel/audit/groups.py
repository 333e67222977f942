"""A consumer group's committed positions beside the log, and beside what was made of it; pure but for the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.client.blocking import Cluster
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupAudit:
    """Where a group has read a topic to, by partition, and each position that cannot be one."""

    group: str
    topic: str
    positions: Mapping[int, int]
    findings: tuple[str, ...]

    def as_line(self) -> str:
        shown = ", ".join(f"{number}@{offset}" for number, offset in sorted(self.positions.items()))
        return f"group {self.group}: read {self.topic} up to {shown or 'nowhere'} (partition@offset)"


def judge_positions(
    group: str,
    topic: str,
    positions: Mapping[int, int],
    first: Mapping[int, int],
    end: Mapping[int, int],
) -> GroupAudit:
    """Each position has to lie in the log, or at its end."""
    findings = []
    for number, position in sorted(positions.items()):
        where = f"{topic}-{number}: the group's position is {position}"
        if number not in end:
            findings.append(f"{where}, and there is no such partition")
        elif position > end[number]:
            findings.append(
                f"{where}, behind the log's end at {end[number]}: rows to come would be passed over"
            )
        elif position < first[number]:
            findings.append(f"{where}, before the log's start at {first[number]}: rows are gone unread")
    return GroupAudit(group, topic, dict(positions), tuple(findings))


def read_group(cluster: Cluster, group: str, topic: str, partitions: list[TopicPartition]) -> GroupAudit:
    """What the group has committed now; asked for before the log is read, whose end only grows."""
    committed = cluster.committed_offsets(group, require_stable=False)
    positions = {
        tp.partition: at.offset for tp, at in committed.items() if tp.topic == topic and at.offset >= 0
    }
    first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
    end = cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), "read_uncommitted")
    return judge_positions(
        group,
        topic,
        positions,
        {tp.partition: at.offset for tp, at in first.items()},
        {tp.partition: at.offset for tp, at in end.items()},
    )
