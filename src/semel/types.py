"""The small values that every layer names: partitions, offsets' sentinels, producer identities.

Names follow Kafka's. Offsets ending in ``last_`` are inclusive, ``_end_`` exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

PRODUCER_EPOCH_MAX: Final = 2**15 - 1

EARLIEST_TIMESTAMP: Final = -2  # ListOffsets: "the log start offset"
LATEST_TIMESTAMP: Final = -1  # ListOffsets: "the high watermark, or the last stable offset"


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ProducerGrant:
    """What InitProducerId answers: the right to write as ``producer_id`` at ``producer_epoch`` (KIP-98)."""

    producer_id: int
    producer_epoch: int
