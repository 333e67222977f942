from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from semel.types import TopicPartition

A1 = TopicPartition("a", 1)
names = st.text(min_size=1, max_size=20)
times = st.integers(0, 2**31 - 1)
members = st.builds(
    StoredMember, names, st.none() | names, names, names, times, times, st.binary(), st.binary()
)
groups = st.builds(
    StoredGroup, names, times, st.none() | names, st.none() | names, times, st.lists(members).map(tuple)
)


def test_the_records_of_an_offset_are_kafkas() -> None:
    assert encode_key(OffsetKey("g", A1)) == bytes.fromhex("0001 0001 67 0001 61 00000001")
    value = encode_offset(CommittedOffset(5, 2, "m", 7))
    assert value == bytes.fromhex("0003 0000000000000005 00000002 0001 6d 0000000000000007")


def test_an_offset_with_an_end_is_in_the_version_that_has_one() -> None:
    value = encode_offset(CommittedOffset(5, -1, "m", 7, 9))
    assert value == bytes.fromhex("0001 0000000000000005 0001 6d 0000000000000007 0000000000000009")
    assert decode_offset(value) == CommittedOffset(5, -1, "m", 7, 9)


def test_the_records_of_a_group_are_kafkas() -> None:
    assert encode_key(GroupKey("g")) == bytes.fromhex("0002 0001 67")
    member = StoredMember("m", None, "c", "/h", 3, 2, b"s", b"as")
    assert encode_group(StoredGroup("consumer", 4, "range", "m", 6, (member,))) == bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0001 6d 0000000000000006 00000001"
        "0001 6d ffff 0001 63 0002 2f68 00000003 00000002 00000001 73 00000002 6173"
    )


def test_older_versions_of_a_group_are_read() -> None:
    head = bytes.fromhex("0001 63 00000004 ffff ffff")
    zero = decode_group(
        bytes.fromhex("0000")
        + head
        + bytes.fromhex("00000001 00016d 000163 000168 00000005 00000000 00000000")
    )
    assert zero == StoredGroup("c", 4, None, None, -1, (StoredMember("m", None, "c", "h", 5, 5, b"", b""),))
    two = decode_group(bytes.fromhex("0002") + head + bytes.fromhex("0000000000000009 00000000"))
    assert two == StoredGroup("c", 4, None, None, 9)


def test_keys_of_other_kinds_are_told_apart() -> None:
    assert decode_key(b"") is None
    assert decode_key(bytes.fromhex("0003 0001 67")) is None, "of the new protocol (KIP-848)"


@given(names, names, st.integers(0, 2**31 - 1))
def test_keys_come_back(group_id: str, topic: str, number: int) -> None:
    for key in (OffsetKey(group_id, TopicPartition(topic, number)), GroupKey(group_id)):
        assert decode_key(encode_key(key)) == key


@given(st.integers(0, 2**62), names, times, st.just(-1) | times)
def test_offsets_come_back(offset: int, metadata: str, committed_ms: int, expires_ms: int) -> None:
    leader_epoch = 3 if expires_ms == -1 else -1
    committed = CommittedOffset(offset, leader_epoch, metadata, committed_ms, expires_ms)
    assert decode_offset(encode_offset(committed)) == committed


@given(groups)
def test_groups_come_back(group: StoredGroup) -> None:
    assert decode_group(encode_group(group)) == group
