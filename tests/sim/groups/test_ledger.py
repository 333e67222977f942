"""The ledger sees what the coordinator writes when it is written, and what is left of it when a process comes up."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.sim.groups.smallest import ANN, BOB, GROUP, KEY, note, stored, story

from semel.core.decision import StateRecord
from semel.core.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    encode_group,
    encode_key,
    encode_offset,
)
from semel.errors import ErrorCode
from semel.record.batch import Record, assign_offsets, encode_batch
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.sim.groups.ledger import GROUPS, GroupLedger
from semel.sim.groups.story import GroupStory
from semel.sim.groups.watcher import GroupLogWatcher
from semel.sim.world.watchers import Watchers
from semel.types import TopicPartition

NOTE = note(ANN, 1)
ASSIGNED = StateRecord(encode_key(GroupKey(GROUP)), encode_group(stored(1, ANN)))
COMMITTED = StateRecord(encode_key(KEY), encode_offset(CommittedOffset(5, metadata=NOTE)))
FORGOTTEN = StateRecord(encode_key(KEY), None)


class Seen(GroupLogWatcher):
    """What was told, and what the log said by then."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def group_written(
        self, story: GroupStory, group_id: str, stored: StoredGroup | None, now_ms: int
    ) -> None:
        self.told.append((group_id, stored, group_id in story.log.groups))

    def offset_written(self, story: GroupStory, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self.told.append(
            (key, None if committed is None else committed.metadata, key in story.log.note_places)
        )

    def coordinator_came_up(self, story: GroupStory, now_ms: int) -> None:
        self.told.append("came up")


def ledger() -> tuple[GroupStory, Seen, GroupLedger]:
    of, seen = story(), Seen()
    return of, seen, GroupLedger(of, Watchers([seen]), lambda: 7)


def append(
    to: GroupLedger,
    records: Sequence[StateRecord],
    base_offset: int,
    code: ErrorCode = ErrorCode.NONE,
    name: TopicPartition = GROUPS,
) -> None:
    batch = memoryview(encode_batch([Record(n, 0, one.key, one.value) for n, one in enumerate(records)]))
    assign_offsets(batch, base_offset, 0)
    outcome = AppendOutcome(code, base_offset=base_offset)
    to.appended(name, [Incoming(batch, [])], [outcome])


def synced(to: GroupLedger, high_watermark: int, *names: TopicPartition) -> None:
    storage: Any = SimpleNamespace(
        group_log=SimpleNamespace(partition=SimpleNamespace(high_watermark=high_watermark))
    )
    to.synced(storage, names or (GROUPS,))


def test_each_record_is_told_before_it_counts() -> None:
    of, seen, made = ledger()
    append(made, [ASSIGNED, COMMITTED, FORGOTTEN], 4)
    assert seen.told == [(GROUP, stored(1, ANN), False), (KEY, NOTE, False), (KEY, None, True)]
    assert of.log.assigned_places == {GROUP: [(1, 4)]}
    assert of.log.note_places == of.log.first_places == {KEY: {NOTE: 5}}
    assert of.log.gone_places == {KEY: 6}


def test_another_partitions_are_nobodys_business() -> None:
    _, seen, made = ledger()
    append(made, [ASSIGNED], 0, name=TopicPartition("events", 0))
    synced(made, 1, TopicPartition("events", 0))
    assert not seen.told


def test_it_is_durable_once_it_is_synced() -> None:
    of, _, made = ledger()
    append(made, [ASSIGNED, COMMITTED], 0)
    assert not of.log.is_durable(0)
    synced(made, 1)
    assert of.log.is_durable(0)
    assert not of.log.is_durable(1)


def test_behind_a_refusal_a_group_is_in_doubt_until_its_next_record() -> None:
    of, _, made = ledger()
    append(made, [ASSIGNED], 0)
    append(made, [ASSIGNED], -1, ErrorCode.KAFKA_STORAGE_ERROR)
    assert of.log.is_in_doubt(GROUP)
    append(made, [COMMITTED], 1)
    assert of.log.is_in_doubt(GROUP)
    append(made, [ASSIGNED], 2)
    assert not of.log.is_in_doubt(GROUP)


def test_a_copy_is_the_newest_and_leaves_the_first() -> None:
    of, _, made = ledger()
    append(made, [COMMITTED], 0)
    append(made, [COMMITTED], 1)
    assert (of.log.first_places[KEY][NOTE], of.log.note_places[KEY][NOTE]) == (0, 1)


def test_a_group_that_is_gone_has_no_generation() -> None:
    of, _, made = ledger()
    append(made, [ASSIGNED, StateRecord(ASSIGNED.key, None)], 0)
    assert not of.log.groups
    assert not of.log.assigned_places


def test_what_comes_up_is_all_that_there_is() -> None:
    of, _, made = ledger()
    append(made, [ASSIGNED, COMMITTED], 0)
    of.log.begin_anew()
    of.log.group_came(0, GROUP, stored(1, BOB))
    assert of.log.groups[GROUP] == stored(1, BOB)
    assert not of.log.note_places


def test_damage_on_purpose_is_not_looked_at() -> None:
    _, seen, made = ledger()
    made.is_on = False
    append(made, [ASSIGNED], 0)
    assert not seen.told
