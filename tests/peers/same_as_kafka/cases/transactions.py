"""Transactions: who may write under which name, what belongs to one, and how it ends.

What is written in one is in ``transactions_written.py``, and who sees what of it in ``transactions_seen.py``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.grouping import Group
from tests.peers.same_as_kafka.transacting import Producer, Transactions

_STATES = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
TIMEOUT_MAX_MS = 15 * 60 * 1000
INT32_MAX = 2**31 - 1
_ASKED_AGAIN = (
    "semel answers EndTxn once every partition has the marker; Apache Kafka writes them afterwards, and has whoever "
    "comes meanwhile come again"
)

# Whole lives


@case()
def a_life_in_every_older_version(wire: Wire) -> object:
    """Partitions are added, and the epoch stays: each request in each of its versions, one with each of the others."""
    room = Transactions(wire)
    topic, read = wire.new_topic(), wire.new_topic()
    found = {}
    for version in range(5):
        group = Group(wire)
        producer = Producer(room)
        seen: list[Any] = [producer.init(version)]
        for commit in (True, False):
            seen += [
                producer.add(topic, version=min(version, 3)),
                producer.write(topic, b"a", b"b", version=3 + version),
                producer.write(topic, b"c", version=7 + version),
                producer.add_offsets(group.id, version),
                producer.commit_offsets(group.id, read, version=version),
                room.described(producer.name),
                producer.end(commit=commit, version=version),
                room.described(producer.name),
            ]
        seen.append(group.shown(group.committed([read])))
        found[version] = seen
    return found, room.fetched(topic)


@case()
def a_life_in_every_newer_version(wire: Wire) -> object:
    """KIP-890: Produce and TxnOffsetCommit register what they write, and each end raises the epoch."""
    room = Transactions(wire)
    topic, read = wire.new_topic(), wire.new_topic()
    found = {}
    for version in (12, 13):
        group = Group(wire)
        producer = room.producer(version=5)
        seen: list[Any] = []
        for commit in (True, False, True):
            seen += [
                producer.write(topic, b"a", b"b", version=version),
                producer.write(topic, b"c", version=version),
                producer.commit_offsets(group.id, read),
                room.described(producer.name),
                producer.end(commit=commit),
                room.described(producer.name),
            ]
        seen.append(group.shown(group.committed([read])))
        found[version] = seen
    return found, room.fetched(topic)


@case()
def a_client_that_goes_from_the_older_to_the_newer(wire: Wire) -> object:
    """And back: what it ends with says which it speaks."""
    room = Transactions(wire)
    topic = wire.new_topic()
    producer = room.producer()
    seen: list[Any] = []
    for version in (4, 5, 5, 4, 4, 5):
        added = producer.add(topic) if version < 5 else None
        seen += [
            added,
            producer.write(topic, version=11 if version < 5 else 12),
            producer.end(commit=True, version=version),
            room.described(producer.name),
        ]
    return seen


# InitProducerId


@case()
def inits_of_no_sense(wire: Wire) -> object:
    """Without a name, and with time-outs out of range, in every version."""
    room = Transactions(wire)
    found = {}
    for version in range(6):
        found[version] = [
            Producer(room, "").init(version),
            *(
                Producer(room).init(version, timeout_ms)
                for timeout_ms in (0, -1, 1, TIMEOUT_MAX_MS, TIMEOUT_MAX_MS + 1, INT32_MAX, -INT32_MAX)
            ),
        ]
    return found


@case(
    because="a name has a bound, as everything has that a stranger may send",
    semel=["none", "invalid_request"],
    kafka=["none", "none"],
)
def long_names(wire: Wire) -> object:
    room = Transactions(wire)
    name = wire.name("txn")
    return [Producer(room, name.ljust(size, "x")).init()[0] for size in (1024, 1025)]


@case()
def inits_by_id(wire: Wire) -> object:
    """With another id, an older and a newer epoch than was granted, and with the one that was."""
    room = Transactions(wire)
    found = {}
    for version in (3, 4, 5):
        holder = room.producer()
        holder.init()
        seen = []
        for id_delta, epoch_delta in ((1, 0), (0, 1), (0, 0), (0, -2), (0, 0)):
            given = {
                "producer_id": holder.producer_id + id_delta,
                "producer_epoch": holder.producer_epoch + epoch_delta,
            }
            seen.append(holder.init(version, **given))
        found[version] = seen
    return found


@case(
    because="whoever brings an id and an epoch wants to go on under them; where the name is forgotten, semel cannot "
    "say that no other copy does, and refuses. Apache Kafka begins anew, with another id",
    semel=[("invalid_producer_id_mapping", -1)] * 3,
    kafka=[("none", 0)] * 3,
)
def inits_by_id_of_a_name_that_nobody_has(wire: Wire) -> object:
    room = Transactions(wire)
    holder = room.producer()
    given = {"producer_id": holder.producer_id, "producer_epoch": 0}
    answers = [Producer(room).init(version, **given) for version in (3, 4, 5)]
    return [(code, producer_epoch) for code, _, producer_epoch in answers]


@case()
def inits_of_half_an_identity(wire: Wire) -> object:
    room = Transactions(wire)
    holder = room.producer()
    return [
        holder.init(producer_id=holder.producer_id, producer_epoch=-1)[0],
        holder.init(producer_id=-1, producer_epoch=0)[0],
        holder.init(producer_id=-2, producer_epoch=-1)[0],
        Producer(room).init(producer_id=-1, producer_epoch=0)[0],
    ]


@case(
    because="of two copies of one saved identity only one may go on: the epoch is granted once. Apache Kafka takes the "
    "second question for the first one's, asked again",
    semel=[("none", "#1", 1), ("producer_fenced", -1, -1)],
    kafka=[("none", "#1", 1), ("none", "#1", 1)],
)
def two_copies_ask_with_the_same_epoch(wire: Wire) -> object:
    holder = Transactions(wire).producer()
    other = holder.copy()
    given = {"producer_id": holder.producer_id, "producer_epoch": holder.producer_epoch}
    return [holder.init(**given), other.init(**given)]


@case()
def an_init_during_a_transaction(wire: Wire) -> object:
    """It is aborted, and whoever had it is fenced, in either protocol."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = []
    for version in (11, 12):
        holder = room.producer()
        if version == 11:
            holder.add(topic)
        written = holder.write(topic, version=version)
        older = holder.copy()
        found.append(
            [
                written[0],
                holder.init(),
                room.described(holder.name),
                older.add(topic),
                older.write(topic, version=version, sequence=1)[0],
                older.end(commit=True, version=3),
                older.end(commit=True, version=5),
                older.init(producer_id=older.producer_id, producer_epoch=older.producer_epoch),
                holder.write(topic, version=12)[0],
                holder.end(commit=True, version=5),
            ]
        )
    return found, room.fetched(topic)


@case(
    because="the epoch of an abort by an init is granted to nobody, so that it shuts out whoever had the one before; "
    "Apache Kafka grants it to whoever asks by the id",
    semel=[("none", "#1", 2), ("none", 2), ("none", "#1", 3), [("#1", 0)]],
    kafka=[("none", "#1", 1), ("none", 2), ("none", "#1", 2), [("#1", 0)]],
)
def an_init_by_id_during_a_transaction(wire: Wire) -> object:
    """KIP-360: a client that lost track goes on with its own id."""
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    room.id_shown(holder.producer_id)
    holder.write(topic)
    given = {"producer_id": holder.producer_id, "producer_epoch": holder.producer_epoch}
    answered = [holder.init(**given), holder.write(topic), holder.end(commit=True)]
    return [*answered, room.fetched(topic)["aborted"]]


@case(
    because="semel answers with the grant once the abort is done; Apache Kafka has the client come again",
    semel=("none", 2),
    kafka=("concurrent_transactions", -1),
)
def the_first_answer_to_an_init_during_a_transaction(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    holder.write(topic)
    answer = wire.ask(
        "init_producer_id",
        4,
        transactional_id=holder.name,
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    return answer.error_code.name, answer.producer_epoch


@case()
def a_time_out_is_of_the_last_init(wire: Wire) -> object:
    room = Transactions(wire)
    holder = room.producer()
    before = room.described(holder.name)
    holder.init(timeout_ms=5_000)
    return before, room.described(holder.name)


@case()
def a_transaction_that_takes_too_long(wire: Wire) -> object:
    """Aborted by the coordinator, its producer is fenced; with the next init it goes on."""
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer(timeout_ms=1_000)
    written = holder.write(topic)
    give_up_s = time.monotonic() + 30
    while room.state_of(holder.name) != "CompleteAbort":
        assert time.monotonic() < give_up_s, room.described(holder.name)
        time.sleep(0.05)
    return [
        written,
        room.described(holder.name),
        room.fetched(topic),
        holder.add(topic),
        holder.write(topic),
        holder.commit_offsets(Group(wire).id, topic),
        holder.end(commit=False, version=4),
        holder.end(commit=True, version=5),
        holder.end(commit=False, version=5),
        holder.init(),
        holder.write(topic),
        holder.end(commit=True),
    ]


# AddPartitionsToTxn and AddOffsetsToTxn


def _wrong_ones(holder: Producer, stranger: Producer) -> dict[str, dict[str, Any]]:
    return {
        "no name": {"transactional_id": ""},
        "a name that nobody has": {"transactional_id": f"{holder.name}-nobody"},
        "another one's name": {"transactional_id": stranger.name},
        "another id": {"producer_id": stranger.producer_id},
        "no id": {"producer_id": -1},
        "an older epoch": {"producer_epoch": holder.producer_epoch - 1},
        "a newer epoch": {"producer_epoch": holder.producer_epoch + 1},
        "no epoch": {"producer_epoch": -1},
    }


@case()
def partitions_added_by_the_wrong_ones(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder, stranger = room.producer(), room.producer()
    holder.init()
    return {
        version: {
            who: holder.add(topic, version=version, **given)
            for who, given in _wrong_ones(holder, stranger).items()
        }
        for version in range(4)
    }, room.described(holder.name)


@case()
def partitions_added_of_which_some_are_not_there(wire: Wire) -> object:
    room = Transactions(wire)
    topic, gone = wire.new_topic(2), wire.name()
    holder = room.producer()
    return {
        version: [
            holder.add(topic, gone, version=version),
            holder.add(topic, version=version, partitions=(0, 2)),
            holder.add(topic, version=version, partitions=(-1,)),
            room.described(holder.name),
        ]
        for version in range(4)
    }


@case(
    because="a transaction begins with its first partition; Apache Kafka begins one that has none, and times it",
    semel=([], [], "Empty"),
    kafka=([], [], "Ongoing"),
)
def no_partitions_added(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    return holder.add(), holder.add(topic, partitions=()), room.state_of(holder.name)


@case()
def partitions_added_several_times(wire: Wire) -> object:
    room = Transactions(wire)
    topic, other = wire.new_topic(2), wire.new_topic()
    holder = room.producer()
    named = [{"name": topic, "partitions": [0, 0]}, {"name": topic, "partitions": [0]}]
    return [
        holder.add(topic, topics=named)[:1],
        holder.add(topic, partitions=(0, 1)),
        holder.add(other, topic, partitions=(0,)),
        room.described(holder.name),
        holder.end(commit=True, version=4),
        holder.add(topic),
        room.described(holder.name),
    ]


@case()
def partitions_of_the_servers_own_topics_added(wire: Wire) -> object:
    room = Transactions(wire)
    Group(wire)
    holder = room.producer()
    return [holder.add(name, version=3) for name in ("__consumer_offsets", "__transaction_state")]


@case()
def offsets_added_by_the_wrong_ones(wire: Wire) -> object:
    room = Transactions(wire)
    group = Group(wire)
    holder, stranger = room.producer(), room.producer()
    holder.init()
    return {
        version: {
            who: holder.add_offsets(group.id, version, **given)
            for who, given in _wrong_ones(holder, stranger).items()
        }
        for version in range(5)
    }, room.described(holder.name)


@case()
def offsets_added_of_any_group(wire: Wire) -> object:
    """Whether there is one of that name is nobody's business here."""
    room = Transactions(wire)
    Group(wire)
    holder = room.producer()
    return [
        holder.add_offsets(""),
        room.described(holder.name),
        holder.add_offsets(wire.name("group")),
        room.described(holder.name),
    ]


# EndTxn


@case()
def ends_by_the_wrong_ones(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder, stranger = room.producer(), room.producer()
    holder.init()
    holder.add(topic)
    return {
        version: {
            who: holder.end(commit=commit, version=version, wait=False, **given)
            for who, given in _wrong_ones(holder, stranger).items()
            for commit in (True, False)
        }
        for version in range(6)
    }, room.described(holder.name)


def _in_state(room: Transactions, state: str, topic: str, version: int) -> Producer:
    """A producer whose name is in a state, which a client of that EndTxn has brought about."""
    holder = room.producer()
    if state == "Empty":
        return holder
    if version < 5:
        holder.add(topic)
    else:
        holder.write(topic)
    if state != "Ongoing":
        ended = holder.end(commit=state == "CompleteCommit", version=version)
        assert ended[0] == "none", ended
    return holder


def _ends_in_each_state(
    wire: Wire, version: int, first: int, deltas: Sequence[int] = (0, -1, 1), states: Sequence[str] = _STATES
) -> object:
    """With the epoch of now, with the one before and the one after; each of a fresh producer."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = {}
    for state in states:
        for commit in (True, False):
            for delta in deltas:
                holder = _in_state(room, state, topic, first)
                asked = {"producer_epoch": holder.producer_epoch + delta}
                once = holder.end(commit=commit, version=version, **asked)
                found[state, commit, delta] = [
                    (one[0], *one[2:]) for one in (once, holder.end(commit=commit, version=version, **asked))
                ] + [
                    {**each, "transactional_id": "", "producer_id": ""}
                    for each in room.described(holder.name)
                ]
    return found


@case()
def ends_in_each_state_by_older_clients(wire: Wire) -> object:
    return _ends_in_each_state(wire, 4, 4)


@case()
def ends_in_each_state_by_the_oldest_clients(wire: Wire) -> object:
    return _ends_in_each_state(wire, 0, 0)


@case()
def ends_in_each_state_by_newer_clients(wire: Wire) -> object:
    return _ends_in_each_state(wire, 5, 5)


@case()
def ends_by_newer_clients_of_what_older_ones_began(wire: Wire) -> object:
    return _ends_in_each_state(wire, 5, 4, deltas=(0, 1))


@case(
    because="an end by an older client raises no epoch, so who asks with the one before was fenced by an init: semel "
    "says so, and Apache Kafka takes it for the holder who asks again, and hands it the holder's epoch",
    semel=[("producer_fenced", -1), ("producer_fenced", -1)],
    kafka=[("none", 1), ("invalid_txn_state", -1)],
)
def an_end_by_a_newer_client_that_was_fenced_by_an_older_one(wire: Wire) -> object:
    room = Transactions(wire)
    topic = wire.new_topic()
    holder = room.producer()
    fenced = holder.copy()
    holder.init()
    holder.add(topic)
    holder.end(commit=True, version=4)
    answers = [fenced.copy().end(commit=commit) for commit in (True, False)]
    return [(code, producer_epoch) for code, _, producer_epoch in answers]


@case()
def ends_by_older_clients_of_what_newer_ones_began(wire: Wire) -> object:
    return _ends_in_each_state(wire, 4, 5)


@case()
def ends_after_an_abort_that_nobody_asked_for(wire: Wire) -> object:
    """An init has aborted the transaction; now the one that had it, and the new one, end it."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = []
    for version in (4, 5):
        for commit in (True, False):
            holder = room.producer()
            holder.write(topic)
            older = holder.copy()
            holder.init()
            found.append(
                [
                    older.end(commit=commit, version=version),
                    holder.end(commit=commit, version=version),
                    room.described(holder.name),
                ]
            )
    return found


@case()
def an_end_is_retried(wire: Wire) -> object:
    """The answer was lost: the same request once more, then the other one, then what comes next."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = []
    for version in (4, 5):
        for commit in (True, False):
            holder = room.producer()
            holder.add(topic)
            holder.write(topic, version=11)
            lost = holder.copy()
            found.append(
                [
                    holder.end(commit=commit, version=version),
                    lost.copy().end(commit=commit, version=version),
                    lost.copy().end(commit=not commit, version=version),
                    holder.write(topic)[0],
                    lost.copy().end(commit=commit, version=version),
                    lost.copy().end(commit=not commit, version=version),
                    room.state_of(holder.name),
                ]
            )
    return found


@case(
    because=_ASKED_AGAIN,
    semel=False,
    kafka=True,
)
def what_comes_directly_after_an_end(wire: Wire) -> object:
    """Whether it is ever told to come again."""
    room = Transactions(wire)
    topic = wire.new_topic()
    found = set()
    for _ in range(20):
        holder = room.producer()
        holder.write(topic)
        asked = {**holder.grant, "committed": True}
        next_partition = {
            "v3_and_below_transactional_id": holder.name,
            "v3_and_below_producer_id": holder.producer_id,
            "v3_and_below_producer_epoch": holder.producer_epoch + 1,
            "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
        }
        wire.send_together(("end_txn", 5, asked), ("add_partitions_to_txn", 3, next_partition))
        assert wire.receive().error_code.name == "none"
        (result,) = wire.receive().results_by_topic_v3_and_below
        found |= {one.partition_error_code.name for one in result.results_by_partition}
    return "concurrent_transactions" in found
