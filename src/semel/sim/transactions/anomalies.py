"""Jepsen's anomalies, looked for in a whole history of sends and polls.

By the names, and as far as they apply by the definitions, of Jepsen's ``kafka`` workload (jepsen-io/jepsen,
``tests/kafka.clj``), with which Redpanda and Bufstream were tested. All are of readers of what is committed.

======================  ==============================================================================================
G1a                     somebody read a row of a transaction that aborted, or that nobody ever asked to commit
G1b                     a reader passed some rows of a transaction, and got others of it (Adya's intermediate read)
G1c                     transactions that committed read from each other in a circle (write-read edges only: which row
                        of a partition comes first says nothing of which transaction does)
lost write              a committed row that nobody ever read, though somebody read on behind it
duplicate               one row at two offsets
inconsistent offset     two rows at one offset
poll skip               a reader passed a row that another one read
nonmonotonic poll       a reader's offsets went back, or it read on elsewhere than it had come to
nonmonotonic send       a transaction's rows lie in another order than they were sent
======================  ==============================================================================================

Committed is what its client was told so, or what somebody has read. Rows below where the log begins in the end are none
of these: they may have gone before anybody came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from semel.sim.transactions.story import Poll, TransactionStory, Txn, transaction_of
from semel.types import TopicPartition


class Anomaly(NamedTuple):
    """One that was found: Jepsen's name, and the evidence."""

    kind: str
    evidence: str


@dataclass(slots=True)
class _Seen:
    """One partition, as its committed readers together saw it."""

    values: dict[int, bytes] = field(default_factory=dict)  # by offset
    offsets: dict[bytes, int] = field(default_factory=dict)
    read_to: int = 0


def anomalies(story: TransactionStory) -> Iterator[Anomaly]:
    """All that are there, the plainest first."""
    seen: dict[TopicPartition, _Seen] = {tp: _Seen() for tp in story.tps}
    for poll in story.polls:
        if poll.is_committed:
            yield from _take(story, seen[poll.tp], poll)
    yield from _sends(story)
    committed = committed_in(story, {value for one in seen.values() for value in one.offsets})
    yield from _lost(story, seen, committed)
    yield from _polls(story, seen, committed)
    yield from _circles(story, committed)


def committed_in(story: TransactionStory, values: set[bytes]) -> dict[str, Txn]:
    """Those of which the client was told so, or of which somebody has read these."""
    read = {transaction_of(value) for value in values}
    return {name: txn for name, txn in story.txns.items() if txn.told is True or name in read}


def _take(story: TransactionStory, seen: _Seen, poll: Poll) -> Iterator[Anomaly]:
    seen.read_to = max(seen.read_to, poll.next_offset)
    for offset, value in poll.rows:
        txn = story.txns.get(transaction_of(value))
        if txn is None or not txn.may_be_committed:
            yield Anomaly("G1a", f"{poll.reader} read {value!r} at {offset} of {poll.tp}")
        if seen.values.setdefault(offset, value) != value:
            yield Anomaly(
                "inconsistent offset", f"{poll.tp} has {seen.values[offset]!r} and {value!r} at {offset}"
            )
        if seen.offsets.setdefault(value, offset) != offset:
            yield Anomaly("duplicate", f"{value!r} is at {seen.offsets[value]} and {offset} of {poll.tp}")


def _sends(story: TransactionStory) -> Iterator[Anomaly]:
    for txn in story.txns.values():
        last: dict[TopicPartition, int] = {}
        for row in txn.rows:
            if row.record_offset is not None:
                if row.record_offset <= last.get(row.tp, -1):
                    yield Anomaly("nonmonotonic send", f"{row} is behind {last[row.tp]}")
                last[row.tp] = row.record_offset


def _lost(
    story: TransactionStory, seen: Mapping[TopicPartition, _Seen], committed: Mapping[str, Txn]
) -> Iterator[Anomaly]:
    for txn in committed.values():
        for row in txn.rows:
            of = seen[row.tp]
            offset = row.record_offset
            if offset is None or offset < story.log_starts.get(row.tp, 0):
                continue
            if offset < of.read_to and row.value not in of.offsets:
                yield Anomaly("lost write", f"{row.value!r} at {offset} of {row.tp}, read to {of.read_to}")


def _polls(
    story: TransactionStory, seen: Mapping[TopicPartition, _Seen], committed: Mapping[str, Txn]
) -> Iterator[Anomaly]:
    """Each reader's own way through a partition."""
    ways: dict[tuple[str, TopicPartition], list[Poll]] = {}
    for poll in story.polls:
        if poll.is_committed and poll.reader in story.steady_readers:
            ways.setdefault((poll.reader, poll.tp), []).append(poll)
    for (reader, tp), polls in ways.items():
        start = max(polls[0].from_offset, story.log_starts.get(tp, 0))
        next_offset = polls[0].from_offset
        got: set[bytes] = set()
        for poll in polls:
            log_began_later = next_offset < poll.from_offset <= story.log_starts.get(tp, 0)
            if poll.from_offset != next_offset and not log_began_later:
                yield Anomaly("nonmonotonic poll", f"{reader} is at {poll.from_offset} behind {next_offset}")
            offsets = [offset for offset, _ in poll.rows]
            if offsets != sorted(set(offsets)) or any(
                not poll.from_offset <= offset < poll.next_offset for offset in offsets
            ):
                yield Anomaly("nonmonotonic poll", f"{reader} got {offsets} from {poll.from_offset} of {tp}")
            next_offset = poll.next_offset
            got.update(value for _, value in poll.rows)
        for value, offset in seen[tp].offsets.items():
            if start <= offset < next_offset and value not in got:
                name = transaction_of(value)
                has_others = any(transaction_of(other) == name for other in got)
                kind = "G1b" if has_others else "poll skip"
                yield Anomaly(kind, f"{reader} passed {value!r} at {offset} of {tp}")


def _circles(story: TransactionStory, committed: Mapping[str, Txn]) -> Iterator[Anomaly]:
    """Depth first, without recursion, along "has read from"."""
    reads_from = {
        name: {transaction_of(value) for _, value in txn.polled} & committed.keys() - {name}
        for name, txn in committed.items()
    }
    done: set[str] = set()
    for root in reads_from:
        path, on_path = [(root, iter(sorted(reads_from[root])))], {root: None}
        while path:
            name, others = path[-1]
            other = next((one for one in others if one not in done), None)
            if other is None:
                path.pop()
                del on_path[name]
                done.add(name)
            elif other in on_path:
                yield Anomaly("G1c", f"{[*on_path]} read from each other, from {other} on")
                return
            else:
                path.append((other, iter(sorted(reads_from[other]))))
                on_path[other] = None
