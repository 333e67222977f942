"""Who sees what of a transaction: readers, by their isolation level, and administrators; and who may mark its end."""

from __future__ import annotations

import time
from typing import Any

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.transacting import Transactions

# Readers


@case()
def fetches_in_every_version(wire: Wire) -> object:
    """Open, committed and aborted rows of three producers, between those of nobody."""
    room = Transactions(wire)
    topic = wire.new_topic()
    wire.produce(topic, b"plain")
    aborts, commits, is_open = room.producer(), room.producer(), room.producer()
    for holder in (aborts, commits, aborts, is_open, commits):
        holder.write(topic, b"a", b"b")
    aborts.end(commit=False)
    commits.end(commit=True)
    wire.produce(topic, b"plain")
    return {
        (version, isolation): room.fetched(topic, version, isolation)
        for version in range(4, 19)
        for isolation in (0, 1)
    }


@case()
def fetches_as_transactions_end_one_by_one(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holders = [room.producer() for _ in range(3)]
    for holder in (*holders, *holders):
        holder.write(topic)
    found = []
    for number, commit in ((1, False), (0, True), (2, False)):
        found.append((room.fetched(topic), room.end_of(topic), room.end_of(topic, 0)))
        holders[number].end(commit=commit)
    return found, room.fetched(topic), room.end_of(topic)


@case()
def fetches_from_the_middle_of_aborted_rows(wire: Wire) -> object:
    """Which aborted transactions an answer names, by where it begins."""
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    for commit in (False, True, False, False):
        holder.write(topic, b"a", b"b")
        holder.end(commit=commit)
    return [room.fetched(topic, offset=offset) for offset in range(13)]


@case()
def small_fetches_of_aborted_rows(wire: Wire) -> object:
    """One batch an answer: what it names ends with it."""
    room = Transactions(wire)
    topic = wire.new_topic()
    first, second = room.producer(), room.producer()
    for holder in (first, second, first, second):
        holder.write(topic)
    first.end(commit=False)
    second.end(commit=False)
    return [room.fetched(topic, offset=offset, partition_max_bytes=1) for offset in range(1, 6)]


@case(
    because="semel names the aborted transactions that the answer's batches reach; Apache Kafka those up to what its "
    "sparse index says, which its readers pass over",
    semel=[("#1", 0)],
    kafka=[("#1", 0), ("#2", 1)],
)
def a_small_fetch_in_front_of_aborted_rows(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    first, second = room.producer(), room.producer()
    for holder in (first, second, first, second):
        room.id_shown(holder.producer_id)
        holder.write(topic)
    first.end(commit=False)
    second.end(commit=False)
    return room.fetched(topic, partition_max_bytes=1)["aborted"]


@case()
def fetches_of_a_level_that_there_is_not(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    holder.write(topic)
    return room.fetched(topic, isolation=0)["ends"]


@case()
def fetches_of_nothing_but_an_open_transaction(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    holder.write(topic)
    return [room.fetched(topic, isolation=level, offset=offset) for level in (0, 1) for offset in (0, 1)]


@case()
def what_another_connection_sees_at_once(wire: Wire) -> object:
    """Rows of an open transaction, as soon as they are acknowledged."""
    room, topic = Transactions(wire), wire.new_topic()
    holder = room.producer()
    holder.write(topic)  # it is registered
    other = Transactions(wire.another())
    found: list[object] = []
    for _ in range(3):
        holder.write(topic, b"a", b"b")
        found.append([other.end_of(topic, isolation) for isolation in (0, 1)])
        holder.write(topic)
        found.append(other.end_of(topic, 0, timestamp=-3, version=7)[0])
        holder.write(topic)
        ends = other.fetched(topic, isolation=0, offset=0)["ends"]
        found.append(ends[0])
    return found


@case()
def ends_in_every_version_of_a_list(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    stamps = [int(time.time() * 1000) - 60_000, int(time.time() * 1000) + 60_000]
    holder = room.producer()
    wire.produce(topic, b"plain")
    holder.write(topic)
    time.sleep(
        0.002
    )  # the first of the records with the largest time is asked for, and that is to be the last one
    wire.produce(topic, b"plain")

    def seen() -> dict[Any, Any]:
        return {
            (version, isolation, n): room.end_of(topic, isolation, timestamp, version)
            for version in range(1, 11)
            for isolation in (0, 1)
            for n, timestamp in enumerate((-1, -2, *stamps, *([-3] if version >= 7 else [])))
        }

    during = seen()
    holder.end(commit=True)
    return during, seen()


@case()
def producers_described_during_transactions(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    older, newer = room.producer(), room.producer()
    found = [room.producers_of(topic)]
    older.add(topic)
    for holder, version in ((older, 11), (newer, 12)):
        holder.write(topic, b"a", b"b", version=version)
        holder.write(topic, version=version)
    found.append(room.producers_of(topic))
    older.end(commit=True, version=4)
    newer.end(commit=False, version=5)
    found.append(room.producers_of(topic))
    newer.write(topic)
    return found, room.producers_of(topic)


# Administrators


def _listed(wire: Wire, room: Transactions, version: int = 2, **filters: Any) -> Any:
    """Those of this case's names, and what else the answer says."""
    answer = wire.ask("list_transactions", version, **filters)
    prefix = wire.name("txn").rpartition("-")[0]
    mine = [one for one in answer.transaction_states if one.transactional_id.startswith(prefix)]
    shown = [room.shown(one) for one in sorted(mine, key=lambda one: str(one.transactional_id))]
    return answer.error_code.name, sorted(answer.unknown_state_filters), shown


def _some(wire: Wire) -> tuple[Transactions, list[int]]:
    """One name in each state that lasts; their producer ids."""
    room = Transactions(wire)
    topic = wire.new_topic()
    holders = [room.producer() for _ in range(4)]
    for holder in holders[1:]:
        holder.write(topic)
    holders[2].end(commit=True)
    holders[3].end(commit=False)
    return room, [each.producer_id for each in holders]


@case()
def listed_in_every_version(wire: Wire) -> object:
    room, _ = _some(wire)
    return [_listed(wire, room, version) for version in range(3)]


@case()
def listed_by_state(wire: Wire) -> object:
    room, _ = _some(wire)
    asked = (
        ["Empty"],
        ["Ongoing", "CompleteAbort"],
        ["PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"],
        ["empty"],
        ["ONGOING"],
        ["Nonsense"],
        ["Nonsense", "Empty"],
        [""],
    )
    return [_listed(wire, room, version, state_filters=states) for states in asked for version in (0, 2)]


@case()
def listed_by_producer_id(wire: Wire) -> object:
    room, ids = _some(wire)
    asked: tuple[list[int], ...] = (ids[:1], ids[1:3], [ids[0], 2**60], [2**60], [-1])
    return [_listed(wire, room, producer_id_filters=each) for each in asked]


@case()
def listed_by_duration(wire: Wire) -> object:
    room, _ = _some(wire)
    time.sleep(0.05)
    running = [
        _listed(wire, room, duration_filter=each, state_filters=["Ongoing"]) for each in (0, 10, 3_600_000)
    ]
    return [_listed(wire, room, duration_filter=each) for each in (-1, -7)], running


@case(
    because="the filter is of those that run (KIP-994); Apache Kafka counts those that have ended as well, from their "
    "start, and those that never began, from 1970",
    semel=[["Ongoing"], []],
    kafka=[["CompleteAbort", "CompleteCommit", "Empty", "Empty", "Ongoing"], ["Empty", "Empty"]],
)
def durations_of_those_that_have_ended(wire: Wire) -> object:
    room, _ = _some(wire)
    time.sleep(0.05)
    listed = [_listed(wire, room, duration_filter=each)[2] for each in (10, 3_600_000)]
    return [sorted(one["transaction_state"] for one in found) for found in listed]


@case()
def listed_by_pattern(wire: Wire) -> object:
    room, _ = _some(wire)
    name = wire.name("txn")
    prefix = name.rpartition("-")[0]
    patterns = (
        None,
        "",
        ".*",
        f"{prefix}-.*",
        prefix,
        f"{prefix}-[0-9]",
        ".*-[0-3]",
        "nobody",
        "[",
        "(",
        "*",
        "(?i)SAME-.*",
        "^same.*$",
        r"\Qsame-\E.*",
        "(?=s).*",
        "nobody)|(.*",
        "(s+)+x",
        ".*(?P<kind>txn)-[0-9]",
        r"\p{L}+-.*",
    )
    return [_listed(wire, room, transactional_id_pattern=pattern) for pattern in patterns]


@case(
    because="a pattern has a bound, as everything has that a stranger may send",
    semel=["none", "invalid_regular_expression"],
    kafka=["none", "none"],
)
def listed_by_long_patterns(wire: Wire) -> object:
    room = Transactions(wire)
    return [_listed(wire, room, transactional_id_pattern="x" * size)[0] for size in (1024, 1025)]


@case()
def listed_by_several_filters(wire: Wire) -> object:
    room, ids = _some(wire)
    return [
        _listed(wire, room, state_filters=["Ongoing"], producer_id_filters=ids[1:]),
        _listed(wire, room, state_filters=["Empty"], producer_id_filters=ids[1:]),
        _listed(wire, room, state_filters=["Ongoing"], duration_filter=3_600_000),
        _listed(wire, room, state_filters=["CompleteCommit"], transactional_id_pattern=".*"),
    ]


@case()
def described_that_are_not_there(wire: Wire) -> object:
    room = Transactions(wire)
    holder = room.producer()
    return [
        room.described(wire.name("nobody")),
        room.described(holder.name, wire.name("nobody")),
        room.described(""),
        room.described(),
    ]


@case()
def described_that_is_empty(wire: Wire) -> object:
    room = Transactions(wire)
    holder = room.producer(timeout_ms=12_345)
    answer = wire.ask("describe_transactions", 0, transactional_ids=[holder.name])
    return room.described(holder.name), [str(one.transaction_start_time) for one in answer.transaction_states]


@case()
def the_topic_in_which_transactions_are(wire: Wire) -> object:
    """It is there, it is the server's own, and nobody else writes it."""
    room = Transactions(wire)
    holder = room.producer()
    name = "__transaction_state"
    answer = wire.ask(
        "metadata",
        12,
        topics=[{"name": name, "topic_id": None}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = answer.topics
    written = [
        holder.write(name, version=version, is_transactional=transactional)[0]
        for version, transactional in ((11, False), (12, False), (12, True))
    ]
    return topic.is_internal, len(topic.partitions), written


@case()
def coordinators_of_transactions(wire: Wire) -> object:
    Transactions(wire)
    found: list[Any] = [
        plain(wire.ask("find_coordinator", version, key="t", key_type=1), "port", "host", "error_message")
        for version in (1, 2, 3)
    ]
    for version in (4, 5):
        answer = wire.ask("find_coordinator", version, key_type=1, coordinator_keys=["t", "", "u"])
        found.append([plain(one, "port", "host", "error_message") for one in answer.coordinators])
    return found


# Who may mark the end


@case()
def markers_of_transactions_of_nobody(wire: Wire) -> object:
    """Open by a producer id that no transactional id has now: Apache Kafka's tools abort such a one by a marker."""
    room = Transactions(wire)
    topic = wire.new_topic()
    codes = [room.mark(topic, 4711, producer_epoch) for producer_epoch in (3, 2, 9)]
    return codes, room.fetched(topic)


@case(
    because="the epoch is raised already, and nothing is open: semel has nothing to write",
    semel=("none", (1, 1)),
    kafka=("none", (2, 2)),
)
def a_marker_sent_again(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    room.mark(topic, 4711, 3)
    return room.mark(topic, 4711, 3), room.fetched(topic)["ends"]


@case(
    because="semel refuses the marker of a transaction that its coordinator has under way: written by somebody else, "
    "it would end the transaction in one partition and not in the others",
    semel=["invalid_txn_state", "invalid_txn_state", "invalid_txn_state", "invalid_request", (0, 1)],
    kafka=["invalid_producer_epoch", "none", "none", "none", (4, 4)],
)
def markers_of_a_transaction_that_is_under_way(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    holder.init()
    holder.write(topic)
    found: list[Any] = [
        room.mark(topic, holder.producer_id, holder.producer_epoch + delta, is_commit=commit)
        for delta, commit in ((-1, False), (0, False), (1, False), (1, True))
    ]
    return [*found, room.fetched(topic)["ends"]]


@case()
def markers_of_a_partition_that_the_transaction_has_not(wire: Wire) -> object:
    """The epoch of its producer there is raised, and it is fenced in that partition alone."""
    room = Transactions(wire)
    topic, other = wire.new_topic(), wire.new_topic()
    holder = room.producer()
    holder.write(topic)
    marked = room.mark(other, holder.producer_id, holder.producer_epoch)
    return marked, room.fetched(topic), holder.end(commit=True), room.fetched(topic)


@case()
def markers_after_a_transaction(wire: Wire) -> object:
    """Of its epoch, which ends nothing, and of a higher one, which fences."""
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    holder.add(topic)
    holder.write(topic, version=11)
    holder.end(commit=True, version=4)
    same = room.mark(topic, holder.producer_id, holder.producer_epoch), room.fetched(topic)["ends"]
    higher = room.mark(topic, holder.producer_id, holder.producer_epoch + 1)
    holder.add(topic)
    return same[0], higher, holder.write(topic, version=11)[0], room.producers_of(topic)
