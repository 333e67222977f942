"""The small values that every layer names: partitions, offsets' sentinels, producer identities.

Names follow Kafka's. Offsets ending in ``last_`` are inclusive, ``_end_`` exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

PRODUCER_EPOCH_MAX: Final = 2**15 - 1
LEASED_IDS_FROM: Final = 1 << 62  # producer ids from here on are leased, those below are not

EARLIEST_TIMESTAMP: Final = -2  # ListOffsets: "the log start offset"
LATEST_TIMESTAMP: Final = -1  # ListOffsets: "the high watermark, or the last stable offset"
MAX_TIMESTAMP: Final = -3  # ListOffsets 7: the first of the records with the largest timestamp (KIP-734)
EARLIEST_LOCAL_TIMESTAMP: Final = (
    -4
)  # ListOffsets 8: the first record that is not only in remote storage (KIP-405)
LATEST_TIERED_TIMESTAMP: Final = -5  # ListOffsets 9: the last record in remote storage (KIP-1005)

OWN_TOPICS: Final = "__semel_"  # what they begin with: for semel, and for those who name one exactly
SINKS_TOPIC: Final = f"{OWN_TOPICS}sinks"  # the decision log of the exactly-once sinks


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """The same by the topic's id (KIP-516): a topic that is made anew under its name is another one."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


class RecordError(NamedTuple):
    """Why a record is refused, and with it its batch, in which it has this number (KIP-467)."""

    batch_index: int
    message: str | None


@dataclass(frozen=True, slots=True)
class ProducerGrant:
    """What InitProducerId answers: the right to write as ``producer_id`` at ``producer_epoch`` (KIP-98)."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A leased producer id: who holds it may write until it is over, and is told so at once after that.

    Whoever asked counts ``remaining_ms`` from before asking; the server counts from later. There is no
    renewal: a lease that is resumed is still the same one.
    """

    producer_id: int
    producer_epoch: int
    length_ms: int  # what every lease of the cluster has
    remaining_ms: int
    first_sequences: Mapping[TopicPartition, int]  # of the partitions asked for: where each one begins

    @property
    def grant(self) -> ProducerGrant:
        return ProducerGrant(self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """What a leader knows of one producer; ``last_sequence`` is -1 when its epoch wrote nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int
    lease_remaining_ms: int | None = None  # of a leased id, as its server says; 0: over


def is_leased(producer_id: int) -> bool:
    """Whether the id is one of a lease: its number says so, in every log, tool and follower."""
    return producer_id >= LEASED_IDS_FROM
