"""Who reads what: what holds for every strategy, by property, and Kafka's own answers, by example."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.consumer.assignors import STRATEGIES, are_cooperative, by_range, round_robin
from semel.core.consumer.sticky import cooperative_sticky, sticky
from semel.core.consumer.subscription import Assignments, PartitionCounts, Subscription
from semel.types import TopicPartition

TOPICS = ("a", "b", "c")
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))


def tps(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


@st.composite
def groups(draw: st.DrawFn, *, same: bool = False) -> list[Subscription]:
    """Members that claim what they like: of other generations, of others, of what there is not."""
    common = draw(st.frozensets(st.sampled_from(TOPICS), min_size=1))
    claim = st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(0, 8))
    return [
        Subscription(
            f"m{number}",
            common if same else draw(st.frozensets(st.sampled_from(TOPICS))),
            draw(st.frozensets(claim, max_size=8)),
            draw(st.integers(-1, 2)),
            draw(st.sampled_from([None, f"static{number}"])),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


def given_to(assigned: Assignments) -> dict[TopicPartition, str]:
    """Each partition's one reader."""
    readers: dict[TopicPartition, str] = {}
    for member_id, mine in assigned.items():
        for tp in mine:
            assert tp not in readers, f"{tp} goes to {readers[tp]} and to {member_id}"
            readers[tp] = member_id
    return readers


def expected(counts: PartitionCounts, members: Sequence[Subscription]) -> set[TopicPartition]:
    wanted = {topic for member in members for topic in member.topics}
    return {TopicPartition(topic, number) for topic in wanted for number in range(counts.get(topic, 0))}


@pytest.mark.parametrize("name", STRATEGIES)
@given(counts=COUNTS, members=groups())
def test_each_partition_goes_to_one_who_subscribed_to_it(
    name: str, counts: dict[str, int], members: list[Subscription]
) -> None:
    assigned = STRATEGIES[name].assign(counts, members)
    assert assigned.keys() == {member.member_id for member in members}
    readers = given_to(assigned)
    topics = {member.member_id: member.topics for member in members}
    assert all(tp.topic in topics[member_id] for tp, member_id in readers.items())
    if not STRATEGIES[name].is_cooperative:
        assert readers.keys() == expected(counts, members)


@given(counts=COUNTS, members=groups())
def test_balanced(counts: dict[str, int], members: list[Subscription]) -> None:
    """No chain of moves relieves a member for one that has fewer by two or more."""
    assigned = sticky(counts, members)
    takers = {topic: [m.member_id for m in members if topic in m.topics] for topic in TOPICS}
    for giver in assigned:
        reached, line = {giver}, [giver]
        while line:
            member_id = line.pop()
            for topic in {tp.topic for tp in assigned[member_id]}:
                line += [taker for taker in takers[topic] if taker not in reached]
                reached.update(takers[topic])
        assert all(len(assigned[giver]) - len(assigned[other]) < 2 for other in reached)


@given(counts=COUNTS, members=groups(same=True))
def test_sticky(counts: dict[str, int], members: list[Subscription]) -> None:
    """Where all subscribe to the same, as many partitions stay as the shares have room for."""
    claims: dict[TopicPartition, list[Subscription]] = {}
    for member in members:
        for tp in member.owned & expected(counts, [member]):
            claims.setdefault(tp, []).append(member)
    owned: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    for tp, claimants in claims.items():
        youngest = max(member.generation_id for member in claimants)
        valid = [member.member_id for member in claimants if member.generation_id == youngest]
        if len(valid) == 1:
            owned[valid[0]].add(tp)
    share, more = divmod(len(expected(counts, members)), len(members))
    loads = sorted(map(len, owned.values()), reverse=True)
    room = sum(min(load, share + (place < more)) for place, load in enumerate(loads))
    assigned = sticky(counts, members)
    assert sum(len(owned[member_id] & set(mine)) for member_id, mine in assigned.items()) == room
    assert (
        sticky(
            counts,
            [Subscription(m.member_id, m.topics, frozenset(assigned[m.member_id]), 9) for m in members],
        )
        == assigned
    ), "nobody came and nobody went"


@given(counts=COUNTS, members=groups())
def test_held_back(counts: dict[str, int], members: list[Subscription]) -> None:
    for member_id, mine in cooperative_sticky(counts, members).items():
        others = {tp for member in members if member.member_id != member_id for tp in member.owned}
        assert others.isdisjoint(mine)


@given(counts=COUNTS, members=groups(), came=groups())
@settings(max_examples=settings().max_examples // 2)
def test_in_two_steps_everything_is_where_one_step_would_have_put_it(
    counts: dict[str, int], members: list[Subscription], came: list[Subscription]
) -> None:
    """Each lets go of what it is not given, and joins again: then nothing is held back any more."""
    first = cooperative_sticky(counts, members)
    again = [
        Subscription(member.member_id, member.topics, frozenset(first[member.member_id]), 5)
        for member in members
    ]
    second = cooperative_sticky(counts, again)
    assert given_to(second).keys() == expected(counts, members)
    third = [Subscription(m.member_id, m.topics, frozenset(second[m.member_id]), 6) for m in members]
    assert cooperative_sticky(counts, third) == second, "and there it stays"


@pytest.mark.parametrize("name", STRATEGIES)
@given(counts=COUNTS, members=groups())
@settings(max_examples=settings().max_examples * 3 // 10)
def test_the_order_in_which_members_come_makes_no_difference(
    name: str, counts: dict[str, int], members: list[Subscription]
) -> None:
    assign = STRATEGIES[name].assign
    assert assign(counts, members[::-1]) == assign(counts, members)


def test_range_gives_what_kafkas_gives() -> None:
    """``RangeAssignorTest.testTwoConsumersTwoTopicsSixPartitions``; static members stand before the others."""
    both = frozenset({"a", "b"})
    members = [Subscription("m1", both), Subscription("m2", both)]
    assert by_range({"a": 3, "b": 3}, members) == {
        "m1": [*tps("a", 0, 1), *tps("b", 0, 1)],
        "m2": [*tps("a", 2), *tps("b", 2)],
    }
    static = Subscription("m9", both, group_instance_id="z")
    assert by_range({"a": 3}, [*members, static])["m9"] == tps("a", 0)
    assert by_range({"a": 4}, [*members, static])["m9"] == tps("a", 0, 1)


def test_round_robin_gives_what_kafkas_gives() -> None:
    """``RoundRobinAssignorTest.testMultipleConsumersMixedTopicsSubscriptions``."""
    members = [
        Subscription("m1", frozenset({"a"})),
        Subscription("m2", frozenset({"a", "b"})),
        Subscription("m3", frozenset({"a"})),
    ]
    assert round_robin({"a": 3, "b": 2}, members) == {
        "m1": tps("a", 0),
        "m2": [*tps("a", 1), *tps("b", 0, 1)],
        "m3": tps("a", 2),
    }


def test_a_member_that_comes_gets_its_share_and_the_others_keep_theirs() -> None:
    both = frozenset({"a"})
    members = [
        Subscription("m1", both, frozenset(tps("a", 0, 1, 2)), 1),
        Subscription("m2", both, frozenset(tps("a", 3, 4, 5)), 1),
        Subscription("m3", both),
    ]
    final = sticky({"a": 6}, members)
    assert sorted(map(len, final.values())) == [2, 2, 2]
    assert set(final["m1"]) < set(tps("a", 0, 1, 2))
    assert set(final["m2"]) < set(tps("a", 3, 4, 5))
    step = cooperative_sticky({"a": 6}, members)
    assert step == {"m1": final["m1"], "m2": final["m2"], "m3": []}


def test_a_chain_of_moves_relieves_whom_no_single_move_could() -> None:
    """m1 has a and b, m2 has b and c, m3 only c: m1 gives of b to m2, which gives of c to m3."""
    members = [
        Subscription("m1", frozenset({"a", "b"}), frozenset([*tps("a", 0), *tps("b", 0, 1)]), 1),
        Subscription("m2", frozenset({"b", "c"}), frozenset(tps("c", 0, 1)), 1),
        Subscription("m3", frozenset({"c"}), frozenset(tps("c", 2)), 1),
    ]
    final = sticky({"a": 1, "b": 2, "c": 3}, members)
    assert [len(mine) for _, mine in sorted(final.items())] == [2, 2, 2]


def test_the_younger_claim_counts_and_of_two_equal_ones_neither() -> None:
    both = frozenset({"a"})

    def claims(first_generation: int, second_generation: int) -> Assignments:
        return sticky(
            {"a": 2},
            [
                Subscription("m1", both, frozenset(tps("a", 1)), first_generation),
                Subscription("m2", both, frozenset(tps("a", 1)), second_generation),
            ],
        )

    assert claims(3, 2)["m1"] == tps("a", 1)
    assert claims(2, 3)["m2"] == tps("a", 1)
    assert sorted(given_to(claims(3, 3))) == tps("a", 0, 1)


def test_a_member_is_cooperative_only_if_all_that_it_offers_is() -> None:
    assert are_cooperative(["cooperative-sticky"])
    assert not are_cooperative(["cooperative-sticky", "range"])


def test_a_large_group_is_divided_evenly() -> None:
    topics = frozenset(f"t{number}" for number in range(20))
    members = [Subscription(f"m{number:03d}", topics) for number in range(100)]
    loads = [len(mine) for mine in sticky(dict.fromkeys(topics, 50), members).values()]
    assert all(one == other for one, other in pairwise(loads))
