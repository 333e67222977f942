"""Decision-log records: bytes and back, and keys that compaction may rely on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.sink.committed_state import CommittedState
from semel.core.sink.digest import Digest
from semel.core.sink.journal import (
    Attempt,
    Begin,
    Carried,
    Cut,
    Decision,
    Fence,
    NamedWrite,
    OutputClaim,
    OutputTopic,
    Routing,
    Stored,
    WriterClaim,
    WriterOutput,
    WriterState,
    decode,
    encode,
    read_entry,
)
from semel.types import TopicPartition

NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=5)
NUMBERS = st.integers(0, 2**40)
TPS = st.builds(TopicPartition, NAMES, st.integers(0, 9))
DIGESTS = st.builds(Digest, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
OFFSETS = st.dictionaries(TPS, NUMBERS, max_size=3)
STATES = st.builds(
    WriterState,
    NUMBERS,
    NUMBERS,
    st.dictionaries(TPS, st.builds(WriterOutput, NUMBERS, DIGESTS, st.none() | NUMBERS), max_size=3),
)
COMMITTED = st.builds(CommittedState, st.none() | st.binary(max_size=20), NUMBERS, NUMBERS)
OUTPUTS = st.builds(OutputTopic, NAMES, NAMES, NUMBERS)
CARRIED_DECISIONS = st.builds(
    Decision,
    st.just("s"),
    NUMBERS,
    NAMES,
    NUMBERS,
    OFFSETS,
    NUMBERS,
    NUMBERS,
    st.dictionaries(NAMES, STATES, max_size=2),
    OFFSETS,
    st.booleans(),
    sequence=NUMBERS,
)
CARRYING = st.builds(
    lambda epoch, owner, other, former_id, writers, cuts, decision, has_decision: Begin(
        "s",
        epoch,
        (),
        {},
        carried=Carried(
            Fence("s", epoch, owner, "", 7),
            other,
            former_id,
            writers,
            tuple(cuts),
            decision if has_decision else None,
            has_decision,
        ),
    ),
    NUMBERS,
    NAMES,
    st.none() | st.builds(Fence, st.just("s"), NUMBERS, NAMES, NAMES, NUMBERS),
    NUMBERS,
    st.dictionaries(NAMES, st.dictionaries(st.integers(0, 3), NUMBERS, max_size=2), max_size=2),
    st.lists(st.builds(Cut, st.just("s"), NUMBERS, TPS, NUMBERS, NUMBERS, NUMBERS), max_size=2),
    st.none() | CARRIED_DECISIONS,
    st.booleans(),
)
RECORDS = st.one_of(
    CARRYING,
    st.builds(Fence, NAMES, NUMBERS, NAMES, NAMES, NUMBERS),
    st.builds(
        Begin,
        NAMES,
        NUMBERS,
        st.lists(OUTPUTS, max_size=3).map(tuple),
        OFFSETS,
        st.dictionaries(st.tuples(NAMES, TPS), st.builds(Stored, DIGESTS, NUMBERS), max_size=3),
        st.none() | st.builds(Routing, st.none() | NAMES, st.lists(NAMES, max_size=2).map(tuple), NAMES),
        st.text(max_size=5),
    ),
    st.builds(WriterClaim, NAMES, NAMES, NUMBERS, NUMBERS),
    st.builds(OutputClaim, NAMES, NUMBERS, OUTPUTS, OFFSETS, NUMBERS),
    st.builds(Attempt, NAMES, NAMES, NUMBERS, NUMBERS),
    st.builds(Cut, NAMES, NUMBERS, TPS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(
        Decision,
        NAMES,
        NUMBERS,
        NAMES,
        NUMBERS,
        OFFSETS,
        NUMBERS,
        NUMBERS,
        st.dictionaries(NAMES, STATES, max_size=3),
        OFFSETS,
        st.booleans(),
        st.none() | NUMBERS,
        st.dictionaries(NAMES, NAMES, max_size=3),
        st.lists(
            st.builds(NamedWrite, NUMBERS, st.none() | NAMES, st.none() | NUMBERS, NUMBERS, NUMBERS),
            max_size=3,
        ).map(tuple),
        st.dictionaries(NAMES, COMMITTED, max_size=3),
        st.text(max_size=5),
    ),
)


@given(RECORDS)
def test_a_record_is_what_was_written(record):
    assert decode(encode(record)[1]) == record


@given(st.lists(RECORDS, max_size=4))
def test_no_record_replaces_another_when_compacted(records):
    """Only a copy of itself; of a CUT, an ATTEMPT and a claim, too, that says the same."""
    names = {encode(record)[0] for record in records}
    told = {
        (type(record).__name__, record.sink_id, record.sink_epoch, *_of_itself(record)) for record in records
    }
    assert len(names) == len(told)


def _of_itself(record):
    match record:
        case Fence():
            return (record.producer_id,)
        case Begin():
            return (None if record.carried is None else record.carried.fence.producer_id,)
        case WriterClaim():
            return record.writer, record.producer_id
        case OutputClaim():
            return record.output.topic, record.task_attempt_id
        case Attempt():
            return record.writer, record.task_attempt_id
        case Cut():
            return (repr(record),)
        case Decision():
            return (record.sequence,)


def test_a_zombies_cut_does_not_replace_the_holders():
    assert (
        encode(Cut("s", 1, TopicPartition("in", 0), 0, 5, 2))[0]
        != encode(Cut("s", 2, TopicPartition("in", 0), 0, 5, 2))[0]
    )


def test_no_two_claims_replace_each_other_when_compacted():
    """S2: with the producer id in the key, no "first" is ever compacted away."""
    keys = {encode(WriterClaim("s", writer, pid, 1))[0] for writer in ("a", "b") for pid in (1, 2)}
    assert len(keys) == 4


@pytest.mark.parametrize("change", [{"v": 3}, {"kind": "wish"}])
def test_what_a_later_version_wrote_is_not_guessed_at(change):
    body = json.loads(encode(Fence("s", 1, "a"))[1]) | change
    with pytest.raises(ValueError, match="__semel_sinks"):
        decode(json.dumps(body).encode())


def test_what_an_earlier_version_wrote_is_read():
    """Without the fields that came since; a version that it decided is known, and nothing proves its rows.

    And it is known to be of that version, whose records replace each other when they are compacted.
    """
    older = encode(Fence("s", 1, "a"))[1].replace(b'"v":2', b'"v":1')
    assert read_entry(b'["fence","s"]', older) == (b'["fence","s"]', "s", Fence("s", 1, "a"), 1)
    begun = json.loads(encode(Begin("s", 1, (), {}))[1])
    del begun["routing"]
    assert decode(json.dumps(begun).encode()) == Begin("s", 1, (), {})
    decided = json.loads(encode(Decision("s", 1, "q", 0, {}, 5, 7, {}, {}, txn_version=3))[1])
    del decided["versions"], decided["source_ids"]
    read = decode(json.dumps(decided).encode())
    assert read.versions == (NamedWrite(3, None, None, 5, -1),)
    assert read.source_ids == {}


def test_the_leader_epochs_of_the_decided_ends_are_kept_where_they_are_known():
    ends = {TopicPartition("in", 0): 4, TopicPartition("in", 1): 7}
    decided = Decision("s", 1, "q", 0, ends, 5, 7, {}, {}, source_epochs={TopicPartition("in", 1): 3})
    assert decode(encode(decided)[1]) == decided
    before = replace(decided, source_epochs={})
    assert "source_epochs" not in json.loads(encode(before)[1])
    assert decode(encode(before)[1]) == before


def test_what_keeps_no_state_is_written_as_before_there_were_states():
    """And so is what an earlier version wrote read, as a record of a sink that keeps none."""
    begun, decided = Begin("s", 1, (), {}), Decision("s", 1, "q", 0, {}, 5, 7, {}, {})
    assert "plan" not in json.loads(encode(begun)[1])
    assert not {"states", "state_plan"} & json.loads(encode(decided)[1]).keys()
    assert decode(encode(begun)[1]).plan == ""
    read = decode(encode(decided)[1])
    assert (read.states, read.state_plan) == ({}, "")


def test_a_state_that_is_not_all_there_is_not_read():
    """Base64 without its end would be a shorter state; what is no text of it at all would be an empty one."""
    decided = Decision("s", 1, "q", 0, {}, 5, 7, {}, {}, states={"w": CommittedState(b"abcd", 3, 4)})
    key, value = encode(decided)
    for broken in (b'"YWJjZA="', b'"\\u00e9"', b"7"):
        torn = value.replace(b'"YWJjZA=="', broken)
        assert torn != value
        with pytest.raises(ValueError, match=r"padding|ASCII|its fields are not"):
            read_entry(key, torn)
