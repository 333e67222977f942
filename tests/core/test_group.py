from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.decision import Decision, StateRecord
from semel.core.group import (
    METADATA_BYTES_MAX,
    Codes,
    CommitOffsets,
    CommittedOffset,
    ForgetTopic,
    Groups,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def run(groups: Groups, decision: Decision[Codes]) -> Codes:
    for record in decision.records:
        assert groups.apply(record)
    return decision.response


def commit(groups: Groups, group_id: str, *offsets: tuple[TopicPartition, int]) -> Codes:
    request = CommitOffsets(group_id, [(partition, offset, 4, "m") for partition, offset in offsets])
    return run(groups, groups.decide(request, now_ms=9))


def test_the_last_commit_counts() -> None:
    groups = Groups()
    assert commit(groups, "g", (A0, 1), (B0, 2)) == {A0: ErrorCode.NONE, B0: ErrorCode.NONE}
    commit(groups, "g", (A0, 7))
    assert groups.get("g", A0) == CommittedOffset(7, 4, "m", 9)
    assert sorted(groups.offsets("g")) == [A0, B0]
    assert groups.get("h", A0) is None
    assert list(groups) == ["g"]


def test_topics_can_be_forgotten() -> None:
    groups = Groups()
    commit(groups, "g", (A0, 1), (A1, 1), (B0, 2))
    commit(groups, "h", (A0, 1))
    run(groups, groups.decide(ForgetTopic("a"), 0))
    assert list(groups) == ["g"]
    assert list(groups.offsets("g")) == [B0]
    run(groups, groups.decide(ForgetTopic("b"), 0))
    assert list(groups) == []
    assert list(groups.live_records()) == []


def test_refusals() -> None:
    groups = Groups()
    long = CommitOffsets("g", [(A0, 1, 0, "x" * (METADATA_BYTES_MAX + 1)), (A1, 1, 0, "")])
    assert groups.decide(long, 0).response == {A0: ErrorCode.OFFSET_METADATA_TOO_LARGE, A1: ErrorCode.NONE}
    member = CommitOffsets("g", [(A0, 1, 0, "")], member_id="m")
    assert groups.decide(member, 0).response == {A0: ErrorCode.NONE}, (
        "a member without a generation is nobody"
    )
    generation = CommitOffsets("g", [(A0, 1, 0, "")], generation_id=3)
    assert groups.decide(generation, 0).response == {A0: ErrorCode.ILLEGAL_GENERATION}
    assert groups.decide(CommitOffsets("", [(A0, 1, 0, "")]), 0).response == {A0: ErrorCode.INVALID_GROUP_ID}


def test_the_records_are_kafkas() -> None:
    assert encode_key("g", A1) == bytes.fromhex("0001 0001 67 0001 61 00000001")
    value = encode_value(CommittedOffset(5, 2, "m", 7))
    assert value == bytes.fromhex("0003 0000000000000005 00000002 0001 6d 0000000000000007")
    assert decode_key(b"\x00\x02\x00\x01g") is None, "group metadata"
    assert Groups().apply(StateRecord(b"", None)) is False


names = st.text(min_size=1, max_size=20)


@given(names, names, st.integers(0, 2**31 - 1), st.integers(0, 2**62), names)
def test_keys_and_values_come_back(group: str, topic: str, number: int, offset: int, metadata: str) -> None:
    assert decode_key(encode_key(group, TopicPartition(topic, number))) == (group, (topic, number))
    committed = CommittedOffset(offset, 3, metadata, 4)
    assert decode_value(encode_value(committed)) == committed
