"""Offsets in transactions: what counts, and from when."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from semel.core.decision import StateRecord
from semel.core.group.offsets import GroupRecords
from semel.core.group.records import CommittedOffset, GroupKey, OffsetKey, encode_key, encode_offset
from semel.types import TopicPartition

KEY = OffsetKey("g", TopicPartition("t", 0))


def record(offset: int, key: OffsetKey = KEY) -> StateRecord:
    return StateRecord(encode_key(key), encode_offset(CommittedOffset(offset)))


def committed(records: GroupRecords, key: OffsetKey = KEY) -> int | None:
    found = records.offsets(key.group_id).get(key.partition)
    return None if found is None else found.committed_offset


def test_an_offset_counts_once_its_transaction_is_committed() -> None:
    records = GroupRecords()
    records.apply(record(1))
    assert records.apply_pending(7, record(5))
    assert (committed(records), records.is_pending(KEY)) == (1, True)
    records.end_pending(8, is_commit=True)
    assert (committed(records), records.is_pending(KEY)) == (1, True), "another producer's"
    records.end_pending(7, is_commit=True)
    assert (committed(records), records.is_pending(KEY)) == (5, False)


def test_an_offset_of_an_aborted_transaction_never_counts() -> None:
    records = GroupRecords()
    records.apply_pending(7, record(5))
    records.end_pending(7, is_commit=False)
    assert (committed(records), records.is_pending(KEY)) == (None, False)
    records.end_pending(7, is_commit=True)
    assert committed(records) is None


def test_what_was_committed_behind_it_in_the_log_stays() -> None:
    records = GroupRecords()
    records.apply_pending(7, record(5))
    records.apply(record(6))
    assert not records.is_pending(KEY)
    records.end_pending(7, is_commit=True)
    assert committed(records) == 6


def test_a_group_that_is_deleted_meanwhile_stays_deleted() -> None:
    records = GroupRecords()
    records.apply(record(1))
    records.apply_pending(7, record(5))
    records.apply(StateRecord(encode_key(KEY), None))
    records.end_pending(7, is_commit=True)
    assert committed(records) is None
    assert "g" not in records


def test_members_are_not_written_in_transactions() -> None:
    assert not GroupRecords().apply_pending(7, StateRecord(encode_key(GroupKey("g")), b""))


@dataclass
class Log:
    """Every record with the producer of its transaction, none for those in no transaction, and how each ended."""

    rows: list[tuple[int | None, OffsetKey, int]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)  # producer: which of its transactions
    of_rows: list[int] = field(default_factory=list)
    ended: dict[tuple[int, int], bool] = field(default_factory=dict)

    def newest(self, key: OffsetKey) -> int | None:
        """What a compacted log would keep of the rows that count."""
        found = None
        for (producer_id, row_key, offset), number in zip(self.rows, self.of_rows, strict=True):
            counts = producer_id is None or self.ended.get((producer_id, number), False)
            if row_key == key and counts:
                found = offset
        return found


KEYS = [OffsetKey("g", TopicPartition("t", n)) for n in range(2)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["plain", "write", "write", "commit", "abort"]),
            st.integers(1, 3),
            st.sampled_from(KEYS),
        ),
        max_size=40,
    )
)
def test_of_each_key_the_newest_record_that_counts_does(steps: list[tuple[str, int, OffsetKey]]) -> None:
    records, log = GroupRecords(), Log()
    for offset, (step, producer_id, key) in enumerate(steps):
        number = log.open.setdefault(producer_id, 0)
        match step:
            case "plain":
                log.rows.append((None, key, offset))
                log.of_rows.append(0)
                records.apply(record(offset, key))
            case "write":
                log.rows.append((producer_id, key, offset))
                log.of_rows.append(number)
                records.apply_pending(producer_id, record(offset, key))
            case _:
                log.ended[producer_id, number] = step == "commit"
                log.open[producer_id] += 1
                records.end_pending(producer_id, is_commit=step == "commit")
        assert [committed(records, each) for each in KEYS] == [log.newest(each) for each in KEYS]
