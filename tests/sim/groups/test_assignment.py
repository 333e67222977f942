"""What a leader makes of what it was told, and what stands beside a committed offset."""

from __future__ import annotations

from random import Random

import pytest

from semel.core.group.subscription import subscribed_topics
from semel.sim.groups.assignment import (
    Assignment,
    CommitNote,
    assign,
    decode_assignment,
    decode_note,
    decode_owned,
    encode_subscription,
)
from semel.sim.groups.story import Strategy
from semel.types import TopicPartition

COUNTS = {"t": 3, "u": 2}
ALL = [TopicPartition("t", n) for n in range(3)] + [TopicPartition("u", n) for n in range(2)]


def test_a_subscription_is_kafkas_and_says_what_is_owned() -> None:
    said = encode_subscription(["t", "u"], ALL[:2])
    assert subscribed_topics(said) == {"t", "u"}
    assert decode_owned(said) == ALL[:2]


def test_an_assignment_comes_back_as_it_was_made() -> None:
    made = Assignment(7, tuple(ALL))
    assert decode_assignment(made.encode()) == made
    assert decode_assignment(b"") is None


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("members", [1, 2, 7])
def test_each_partition_goes_to_one_member(strategy: Strategy, members: int) -> None:
    said = {f"m{n}": encode_subscription(["t", "u"], ()) for n in range(members)}
    parts = assign(strategy, said, COUNTS, Random(1))
    assert parts.keys() == said.keys()
    assert sorted(tp for part in parts.values() for tp in part) == ALL


def test_what_somebody_claims_is_given_to_nobody_else_before_it_is_let_go_of() -> None:
    said = {"m": encode_subscription(["t", "u"], ALL), "n": encode_subscription(["t", "u"], ())}
    parts = assign(Strategy.COOPERATIVE, said, COUNTS, Random(1))
    assert parts == {"m": ALL[:3], "n": []}
    said["m"] = encode_subscription(["t", "u"], parts["m"])
    assert assign(Strategy.COOPERATIVE, said, COUNTS, Random(1)) == {"m": ALL[:3], "n": ALL[3:]}


def test_a_commit_says_whose_it_is() -> None:
    note = CommitNote("g0.m1.2", 3, 4, "g0-some-id")
    assert decode_note(note.encode()) == note
    assert decode_note("") is None
    assert decode_note("of somebody else") is None
