"""The load generator: prebuilt frames over raw non-blocking sockets, the same bytes for either server.

A client library would be the slower side and hide the server. What a run must change in a request (sequence,
checksum, correlation id) is patched for many requests at once, so that the cost of a request is its share of
a system call. How far that carries is measured against :mod:`bench.load.sink`, which does nothing but answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

ONE_RECORD: Final = 0  # as batch_bytes
Mode = Literal["produce", "fetch"]


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a server: so many connections, each with so many requests unanswered.

    ``batch_bytes`` is about the size of each batch written; of fetches it is the size of the batches that are
    stored, and ``fetch_bytes`` the most that one answer may bring. The run ends after ``seconds``, or after
    ``requests`` on each connection.

    ``producers``, where given, is how many pairs of a producer and a partition take turns, each with its next batch;
    ``turns_before`` says how many each has had in earlier runs. Otherwise each connection is one producer, and
    without an id unless ``idempotent``.
    """

    mode: Mode
    topic: str
    partitions: int
    connections: int
    in_flight: int
    batch_bytes: int
    fetch_bytes: int = 0
    seconds: float = 0.0
    requests: int = 0
    producers: int = 0
    turns_before: int = 0
    idempotent: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it, from the first request to the last answer. ``busy`` is the generator's share of a core."""

    requests: int
    records: int
    payload_bytes: int
    seconds: float
    p50_ms: float
    p99_ms: float
    busy: float

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.payload_bytes / self.seconds / 1e6


def together(parts: Sequence[Measured]) -> Measured:
    """One figure of several generators that ran side by side; of times and shares the worst."""
    return Measured(
        requests=sum(each.requests for each in parts),
        records=sum(each.records for each in parts),
        payload_bytes=sum(each.payload_bytes for each in parts),
        seconds=max(each.seconds for each in parts),
        p50_ms=max(each.p50_ms for each in parts),
        p99_ms=max(each.p99_ms for each in parts),
        busy=max(each.busy for each in parts),
    )
