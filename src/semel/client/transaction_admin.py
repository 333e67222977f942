"""What an administrator wants to know of transactions, put together of several answers; blocking.

Who reads committed rows only sees nothing behind the first row of a transaction that is open. Who it is waiting for is
known in two places: the coordinator knows the transaction and its partitions, and a partition's leader where it began
there (KIP-664).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from semel.client.blocking import Cluster
from semel.client.model import TransactionDescription, TransactionListing
from semel.errors import BrokerError, ErrorCode, SemelError
from semel.types import LATEST_TIMESTAMP, ProducerGrant, TopicPartition

_AT_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
_TIMEOUT_MS: Final = 60_000  # of one whose own is not known


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """One partition that an open transaction has written to.

    ``open_from_offset`` is its first row there; None: its leader has none of it (yet). ``waiting_offsets`` counts what
    lies behind the last stable offset, where readers of committed rows wait; ``is_held`` says that they wait for this
    transaction.
    """

    tp: TopicPartition
    open_from_offset: int | None
    last_stable_offset: int
    end_offset: int

    @property
    def waiting_offsets(self) -> int:
        return max(0, self.end_offset - self.last_stable_offset)

    @property
    def is_held(self) -> bool:
        return self.open_from_offset is not None and self.open_from_offset == self.last_stable_offset


def is_at_rest(state: str) -> bool:
    """Whether a transactional id in this state has nothing open."""
    return state in _AT_REST


def no_transactional_id(name: str) -> SemelError:
    return BrokerError(
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        f"there is no transactional id {name!r}",
        "semel txn list shows what there is",
    )


def listed(
    cluster: Cluster, states: Iterable[str] = (), *, duration_min_ms: int = -1
) -> list[tuple[TransactionListing, TransactionDescription | None]]:
    """By name; with its description where something is open."""
    found = cluster.list_transactions(states, duration_min_ms=duration_min_ms)
    described = cluster.describe_transactions(
        item.transactional_id for item in found if not is_at_rest(item.state)
    )
    return [(item, described.get(item.transactional_id)) for item in found]


def described(cluster: Cluster, names: Iterable[str]) -> dict[str, TransactionDescription]:
    """Each, or an error that names the one that is not there."""
    answers = {}
    for name, found in cluster.describe_transactions(names).items():
        if found is None:
            raise no_transactional_id(name)
        answers[name] = found
    return answers


def held_partitions(cluster: Cluster, found: TransactionDescription) -> list[HeldPartition]:
    """Of what the transaction has written to: who waits for it there. Without partitions that are gone."""
    if is_at_rest(found.state) or not found.partitions:
        return []
    topics = cluster.metadata(sorted({tp.topic for tp in found.partitions})).topics
    tps = [
        tp for tp in found.partitions if tp.topic in topics and tp.partition in topics[tp.topic].partitions
    ]
    producers = cluster.describe_producers(tps)
    latest = dict.fromkeys(tps, LATEST_TIMESTAMP)
    stable = cluster.list_offsets(latest)
    ends = cluster.list_offsets(latest, "read_uncommitted")
    held = []
    for tp in tps:
        begun = [
            item.transaction_start_offset
            for item in producers[tp]
            if item.producer_id == found.producer_id and item.transaction_start_offset >= 0
        ]
        held.append(HeldPartition(tp, min(begun, default=None), stable[tp].offset, ends[tp].offset))
    return held


def abort(cluster: Cluster, found: TransactionDescription) -> ProducerGrant:
    """Shut its holder out; what it has open is aborted. Whoever it was is told that it is fenced."""
    return cluster.abort_transaction_of(found.transactional_id, found.timeout_ms or _TIMEOUT_MS)
