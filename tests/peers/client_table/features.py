"""What a client is tried for: each feature is a probe that looks at what came back, or at what lies in the log.

To add one, write a function and decorate it; the page has a line for it the next time that it is made.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from tests.peers.client_table.asking import Failed, FeatureAbsent, reason
from tests.peers.client_table.log import Log, eventually
from tests.peers.group_members.groups_log import generations
from tests.peers.group_members.member import Member, until
from tests.peers.group_members.programs import How, Start
from tests.peers.group_members.stable import member as stable_member
from tests.peers.transactional_copiers import copier

from semel.core.group.records import StoredGroup
from semel.record.compression import Compression
from semel.types import TopicPartition
from semel.wire.consumer_protocol import decode_assignment

ROWS: Final = 20
FIRST_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1_000
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
RETENTION: Final = "retention.ms"
_KILLED_SESSION_MS: Final = 5_000  # who lives is heard of by then on a busy machine, too
_LONG_SESSION_MS: Final = 20_000  # a JVM is back by then
_TRANSACTION_MS: Final = 60_000
_SHORT_TRANSACTION_MS: Final = 1_500  # its rows are written by then

# What clients say of a transaction that is not theirs any more.
_OF_ANOTHER_TIME: Final = re.compile(r"fenced|epoch|invalid.?(txn.?)?state", re.IGNORECASE)

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tried:
    """A client on a log. ``start``: how it becomes a member of a group; ``can``: of :class:`How`.

    ``copy``: how it copies a topic in transactions.
    """

    ask: Callable[..., Any]
    log: Log
    start: Start | None
    can: frozenset[str]
    copy: copier.Start | None = None


Probe: TypeAlias = Callable[[Tried], None]
FEATURES: Final[dict[str, Probe]] = {}  # in the order of the table
OF_MEMBERS: Final[
    dict[str, str]
] = {}  # those of members of groups, which take their time; and what is looked at


def feature(name: str, of_members: str = "") -> Callable[[Probe], Probe]:
    def take(probe: Probe) -> Probe:
        FEATURES[name] = probe
        if of_members:
            OF_MEMBERS[name] = of_members
        return probe

    return take


def outcome(probe: Probe, tried: Tried) -> str:
    """What a cell of the table says."""
    try:
        probe(tried)
    except FeatureAbsent:
        return "–"
    except (Failed, AssertionError) as why:
        assert str(why), "a probe says what was wrong"
        return f"no: {reason(str(why))}"
    return "yes"


def probe_all(names: Iterable[str], tried: Tried) -> dict[str, str]:
    """The outcome of each of these features."""
    return {name: outcome(FEATURES[name], tried) for name in names}


# Rows that come and go.


def _rows(first: int = 0, count: int = ROWS, **given: Any) -> list[Row]:
    """They compress well, so that no client leaves a batch as it is."""
    return [{"value": f"row {number} " + "." * 200, **given} for number in range(first, first + count)]


def _keyed() -> list[Row]:
    return [row | {"key": f"key {n}", "headers": [["who", "me"]]} for n, row in enumerate(_rows())]


def _timed() -> list[Row]:
    return [row | {"timestamp_ms": FIRST_MS + n * STEP_MS} for n, row in enumerate(_rows())]


def _produce(tried: Tried, rows: Sequence[Row], *, idempotent: bool = False, codec: str = "none") -> str:
    """The topic in which they are now, in order and once."""
    topic = tried.log.new_topic()
    told = tried.ask("produce", topic=topic, rows=rows, idempotent=idempotent, codec=codec)
    stored = [message.value().decode() for message in tried.log.read(topic, len(rows) + 1)]
    assert stored == [row["value"] for row in rows], "the log has other rows"
    assert told is None or told == list(range(len(rows))), "the client was told other offsets"
    return topic


@feature("produce")
def _(tried: Tried) -> None:
    _produce(tried, _rows())


@feature("… idempotently")
def _(tried: Tried) -> None:
    batches = tried.log.batches(_produce(tried, _rows(), idempotent=True))
    assert all(batch.producer_id >= 0 for batch in batches), "batches without a producer id"
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches], (
        "other sequences than its rows have"
    )


def _produce_compressed(codec: str, tried: Tried) -> None:
    batches = tried.log.batches(_produce(tried, _rows(), codec=codec))
    assert {batch.compression for batch in batches} == {Compression[codec.upper()]}, "another codec"


for _codec in CODECS:
    feature(f"… in {_codec}")(partial(_produce_compressed, _codec))


@feature("… with keys and headers")
def _(tried: Tried) -> None:
    rows = _keyed()
    stored = tried.log.read(_produce(tried, rows), ROWS)
    assert [message.key().decode() for message in stored] == [row["key"] for row in rows], "other keys"
    assert all(message.headers() == [("who", b"me")] for message in stored), "other headers"


@feature("… with times of one's own")
def _(tried: Tried) -> None:
    rows = _timed()
    stored = tried.log.read(_produce(tried, rows), ROWS)
    assert [message.timestamp()[1] for message in stored] == [row["timestamp_ms"] for row in rows], (
        "other times"
    )


def _consume(tried: Tried, rows: Sequence[Row], codec: str = "none") -> list[Row]:
    topic = tried.log.new_topic()
    tried.log.write(topic, rows, codec)
    codecs = {batch.compression for batch in tried.log.batches(topic)}
    assert codecs == {Compression[codec.upper()]}, f"written in {codecs}"
    read: list[Row] = tried.ask("consume", topic=topic, count=len(rows))
    assert [row["value"] for row in read] == [row["value"] for row in rows], "other rows were read"
    assert [row["offset"] for row in read] == list(range(len(rows))), "other offsets were read"
    return read


@feature("consume")
def _(tried: Tried) -> None:
    _consume(tried, _rows())


for _codec in CODECS:
    feature(f"… what is in {_codec}")(lambda tried, codec=_codec: _consume(tried, _rows(), codec))


@feature("… keys, headers and times")
def _(tried: Tried) -> None:
    rows = [keyed | timed for keyed, timed in zip(_keyed(), _timed(), strict=True)]
    read = _consume(tried, rows)
    for what in ("key", "headers", "timestamp_ms"):
        assert [row[what] for row in read] == [row[what] for row in rows], f"another {what} was read"


@feature("offset of a time")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.log.write(topic, _timed())
    for asked_ms, wanted in ((FIRST_MS + 7 * STEP_MS, 7), (FIRST_MS + 7 * STEP_MS + 1, 8)):
        found = tried.ask("offset_for_time", topic=topic, timestamp_ms=asked_ms)
        assert found == wanted, f"{found}, not {wanted}"


@feature("first and last offset")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.log.write(topic, _rows())
    tried.log.admin.delete_records({TopicPartition(topic, 0): 5})
    found = tried.ask("ends", topic=topic)
    assert found == [5, ROWS], f"{found}, not 5 and {ROWS}"


# Transactions.


def _begin(tried: Tried, timeout_ms: int = _TRANSACTION_MS) -> tuple[str, str, list[str]]:
    """A topic with rows of an open transaction, by whom, and the rows."""
    topic, transactional_id, rows = tried.log.new_topic(), tried.log.new_name(), _rows()
    tried.ask(
        "begin_transaction",
        topic=topic,
        rows=rows,
        transactional_id=transactional_id,
        timeout_ms=timeout_ms,
    )
    values = [row["value"] for row in rows]
    eventually(lambda: tried.log.values(topic, is_committed=False), values, "rows in the log")
    return topic, transactional_id, values


def _is_refused(tried: Tried) -> None:
    """The open transaction is none any more, and the client is told so when it ends it."""
    try:
        tried.ask("end_transaction", commit=True)
    except Failed as why:
        assert _OF_ANOTHER_TIME.search(str(why)), str(why)
    else:
        raise AssertionError("the client was told that it had committed")


@feature("commit a transaction")
def _(tried: Tried) -> None:
    topic, _, values = _begin(tried)
    assert tried.log.values(topic, is_committed=True) == [], "its rows can be read before it is committed"
    tried.ask("end_transaction", commit=True)
    eventually(lambda: tried.log.values(topic, is_committed=True), values, "committed")


@feature("… abort one")
def _(tried: Tried) -> None:
    topic, _, values = _begin(tried)
    tried.ask("end_transaction", commit=False)
    tried.log.write(topic, _rows(ROWS, 1))
    last = [row["value"] for row in _rows(ROWS, 1)]
    eventually(lambda: tried.log.values(topic, is_committed=True), last, "committed")
    assert tried.log.values(topic, is_committed=False) == values + last, "the log has other rows"


@feature("… one that another producer fences")
def _(tried: Tried) -> None:
    topic, transactional_id, _ = _begin(tried)
    tried.log.take_over(transactional_id)
    _is_refused(tried)
    assert tried.log.values(topic, is_committed=True) == [], "its rows can be read"


@feature("… one that takes too long")
def _(tried: Tried) -> None:
    topic, _, _ = _begin(tried, _SHORT_TRANSACTION_MS)
    tried.log.write(topic, _rows(ROWS, 1))  # which can be read when it has been aborted
    last = [row["value"] for row in _rows(ROWS, 1)]
    eventually(lambda: tried.log.values(topic, is_committed=True), last, "committed")
    _is_refused(tried)
    assert tried.log.values(topic, is_committed=True) == last, "its rows can be read"


@feature("read what is committed alone")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.log.write_in_transaction(topic, _rows(), is_committed=False)
    tried.log.write_in_transaction(topic, _rows(ROWS), is_committed=True)
    read = tried.ask("consume", topic=topic, count=ROWS, committed=True)
    assert [row["value"] for row in read] == [row["value"] for row in _rows(ROWS)], "other rows were read"
    offsets = [row["offset"] for row in read]
    assert offsets == list(range(ROWS + 1, 2 * ROWS + 1)), "other offsets were read"


@feature(
    "copy in transactions, with offsets",
    "Rows go from a topic to another one, and the group's offsets behind them are in the same transaction: while it is "
    "open, neither is there for whoever reads what is committed, and then both are.",
)
def _(tried: Tried) -> None:
    if tried.copy is None:
        raise FeatureAbsent
    source, target, group = tried.log.new_topic(), tried.log.new_topic(), tried.log.new_name()
    rows = _rows(count=10)
    tried.log.write(source, rows)
    how = copier.How(rows=len(rows), hold_at=1)
    copies = tried.copy(tried.log.bootstrap, source, target, group, tried.log.new_name(), how)
    try:
        until(lambda: copies.tells("held"), [copies], "rows and offsets are in a transaction")
        assert tried.log.values(target, is_committed=False), "the log has no rows"
        assert tried.log.values(target, is_committed=True) == [], "rows can be read before they are committed"
        assert tried.log.offsets_by_now(group, source) == {}, "offsets are there before they are committed"
        copies.go_on()
        until(
            lambda: tried.log.offsets_by_now(group, source) == {0: len(rows)},
            [copies],
            "offsets are committed",
        )
        values = [row["value"] for row in rows]
        eventually(lambda: tried.log.values(target, is_committed=True), values, "committed")
    finally:
        copies.kill()


# Topics.


@feature("list topics")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    assert topic in tried.ask("list_topics"), "it is not listed"


@feature("create a topic, with settings")
def _(tried: Tried) -> None:
    topic = tried.log.new_name()
    tried.ask("create_topic", topic=topic, partitions=3, settings={RETENTION: "3600000"})
    eventually(lambda: tried.log.partitions(topic), 3, "partitions")
    eventually(partial(_retention, tried, topic), "3600000", RETENTION)


@feature("delete a topic")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.ask("delete_topic", topic=topic)
    eventually(lambda: tried.log.partitions(topic), 0, "partitions")


@feature("add partitions")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.ask("add_partitions", topic=topic, partitions=3)
    eventually(lambda: tried.log.partitions(topic), 3, "partitions")


@feature("read a topic's settings")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic(retention_ms="7200000")
    eventually(partial(_retention, tried, topic), "7200000", RETENTION)
    found = tried.ask("topic_setting", topic=topic, name=RETENTION)
    assert found == "7200000", f"{found}, not 7200000"


@feature("change a topic's settings")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.ask("set_topic_setting", topic=topic, name=RETENTION, value="5400000")
    eventually(partial(_retention, tried, topic), "5400000", RETENTION)


def _retention(tried: Tried, topic: str) -> str | None:
    return tried.log.admin.describe_configs(topic)[RETENTION].value


@feature("delete records")
def _(tried: Tried) -> None:
    topic = tried.log.new_topic()
    tried.log.write(topic, _rows())
    tried.ask("delete_records", topic=topic, before=7)
    eventually(lambda: tried.log.start(topic), 7, "the first offset")


# Groups: being a member.


@contextmanager
def _members(
    tried: Tried, partitions: int
) -> Iterator[tuple[str, str, Callable[[How], Member], list[Member]]]:
    """A topic, a group, and what starts a member of it; all that were started."""
    if tried.start is None:
        raise FeatureAbsent
    topic, group, started = tried.log.new_topic(partitions), tried.log.new_name(), []
    with ExitStack() as stack:

        def start(how: How) -> Member:
            assert tried.start is not None
            started.append(tried.start(tried.log.bootstrap, topic, group, how))
            stack.callback(started[-1].kill)
            return started[-1]

        yield topic, group, start, started


def _write_everywhere(tried: Tried, topic: str, partitions: int) -> None:
    """Ten more rows in each partition."""
    for number in range(partitions):
        tried.log.write(topic, _rows(count=10, partition=number))


def _places(partitions: int, first: int, end: int) -> set[tuple[int, int]]:
    return {(partition, offset) for partition in range(partitions) for offset in range(first, end)}


@feature(
    "read in a group, commit, go on",
    "A member reads 20 rows and commits them. It is killed, 20 more rows come, and a new member reads those alone.",
)
def _(tried: Tried) -> None:
    with _members(tried, 2) as (topic, group, start, all_members):
        _write_everywhere(tried, topic, 2)
        first = start(How())
        until(lambda: first.rows == _places(2, 0, 10), all_members, "the first member reads all")
        eventually(lambda: tried.log.offsets(group), {0: 10, 1: 10}, "committed")
        first.kill()
        _write_everywhere(tried, topic, 2)
        second = start(How())
        until(lambda: second.rows >= _places(2, 10, 20), all_members, "the second member reads the rest")
        assert second.rows == _places(2, 10, 20), "what was committed was read again"
        eventually(lambda: tried.log.offsets(group), {0: 20, 1: 20}, "committed")


@feature(
    "share partitions, take them over",
    "Two members have two partitions each, and read no row twice between them. One is killed: the other one "
    "reads on in all four.",
)
def _(tried: Tried) -> None:
    with _members(tried, 4) as (topic, group, start, all_members):
        first, second = _two(tried, group, start, *[How(session_ms=_KILLED_SESSION_MS)] * 2)
        _write_everywhere(tried, topic, 4)
        until(lambda: first.rows | second.rows == _places(4, 0, 10), all_members, "both read all")
        assert not first.rows & second.rows, "both have read the same rows"
        assert first.rows and second.rows, "one has read all"
        eventually(lambda: tried.log.offsets(group), dict.fromkeys(range(4), 10), "committed")
        first.kill()
        _write_everywhere(tried, topic, 4)
        until(lambda: second.rows >= _places(4, 10, 20), all_members, "the survivor reads all")


@feature(
    "divide anew cooperatively",
    "A second member comes. The group's records show that no partition went from one member to another in one "
    "step, and no row is read twice.",
)
def _(tried: Tried) -> None:
    if "cooperative" not in tried.can:
        raise FeatureAbsent
    with _members(tried, 4) as (topic, group, start, all_members):
        how = How(cooperative=True, session_ms=_LONG_SESSION_MS)
        first, second = _two(tried, group, start, how, how)
        history = generations(tried.log.bootstrap, group)
        protocols = {one.protocol_name for one in history if one.members}
        assert protocols == {"cooperative-sticky"}, f"divided by {protocols}"
        owners = [_owners(one) for one in history]
        for before, after in itertools.pairwise(owners):
            assert all(before.get(number) in (None, owner) for number, owner in after.items()), (
                "a partition went to another member in one step"
            )
        _write_everywhere(tried, topic, 4)
        until(lambda: first.rows | second.rows == _places(4, 0, 10), all_members, "both read all")
        assert not first.rows & second.rows, "both have read the same rows"


def _come_back(tried: Tried, *, as_leader: bool) -> None:
    if "instance_id" not in tried.can:
        raise FeatureAbsent
    static, other = How(instance_id="one", session_ms=_LONG_SESSION_MS), How(session_ms=_LONG_SESSION_MS)
    with _members(tried, 4) as (topic, group, start, all_members):
        hows = (static, other) if as_leader else (other, static)
        members = _two(tried, group, start, *hows)
        gone, stays = members if as_leader else reversed(members)
        before = generations(tried.log.bootstrap, group)[-1]
        assert (before.leader == _static_id(before)) is as_leader, "another member leads"
        gone.kill()
        again = start(static)

        def has_come_back() -> bool:
            return _static_id(generations(tried.log.bootstrap, group)[-1]) != _static_id(before)

        until(has_come_back, all_members, "it is known by a new id")
        _write_everywhere(tried, topic, 4)
        until(lambda: again.rows | stays.rows == _places(4, 0, 10), all_members, "both read all")
        after = generations(tried.log.bootstrap, group)[-1]
        assert after.generation_id == before.generation_id, "the group divided its partitions anew"
        assert len(again.rows) == 20, "it has other partitions than before"


feature(
    "come back as a static member",
    "One of two members is killed and started again: it has its partitions again, and the group divides nothing "
    "anew; …",
)(partial(_come_back, as_leader=False))
feature("… that leads the group", "… also when that is the one that leads the group (KIP-814).")(
    partial(_come_back, as_leader=True)
)


def _two(tried: Tried, group: str, start: Callable[[How], Member], *hows: How) -> list[Member]:
    """Two members of four partitions; the second one comes when the first one has them all.

    What a group is asked for may be a sync ahead of its records, so those are waited for, too.
    """
    members = []
    for how, wanted in zip(hows, ([4], [2, 2]), strict=True):
        members.append(start(how))
        until(lambda wanted=wanted: tried.log.shares(group) == wanted, members, f"shares of {wanted}")
    until(lambda: _recorded_shares(tried, group) == [2, 2], members, "shares of [2, 2] in its records")
    return members


def _recorded_shares(tried: Tried, group: str) -> list[int]:
    last = generations(tried.log.bootstrap, group)[-1]
    return sorted(Counter(_owners(last).values()).values())


def _owners(group: StoredGroup) -> dict[int, str]:
    return {
        place.partition: one.member_id for one in group.members for place in decode_assignment(one.assignment)
    }


def _static_id(group: StoredGroup) -> str:
    (found,) = [one.member_id for one in group.members if one.instance_id is not None]
    return found


# Groups: looking and moving.


def _resting_group(tried: Tried) -> tuple[str, str]:
    """A group without members that has committed 3, and its topic."""
    topic, group = tried.log.new_topic(), tried.log.new_name()
    tried.log.write(topic, _rows())
    tried.log.commit(group, topic, 3)
    return group, topic


@feature("list groups")
def _(tried: Tried) -> None:
    group, _ = _resting_group(tried)
    assert group in tried.ask("list_groups"), "it is not listed"


@feature("describe a group")
def _(tried: Tried) -> None:
    topic, group = tried.log.new_name(), tried.log.new_name()
    with stable_member(tried.log.bootstrap, topic, group):
        told = tried.ask("describe_group", group=group)
    assert told["partitions"] == [2], f"partitions of {told['partitions']}, not of [2]"
    assert told["state"].upper() == "STABLE", f"{told['state']}, not Stable"


@feature("read a group's offsets")
def _(tried: Tried) -> None:
    group, topic = _resting_group(tried)
    told = tried.ask("group_offsets", group=group, topic=topic)
    assert told == {"0": 3}, f"{told}, not 3"


@feature("move a group's offsets")
def _(tried: Tried) -> None:
    group, topic = _resting_group(tried)
    tried.ask("set_group_offset", group=group, topic=topic, offset=1)
    eventually(lambda: tried.log.offsets(group), {0: 1}, "committed")


@feature("delete a group")
def _(tried: Tried) -> None:
    group, _ = _resting_group(tried)
    tried.ask("delete_group", group=group)
    eventually(lambda: tried.log.has_group(group), False, "there")
