"""Rows of the verdict table as real batches: on a running log, over the wire."""

from __future__ import annotations

import time
from typing import NamedTuple

from semel.client.blocking import Cluster
from semel.core.producer_state.table import Batch, Marker, Row, Sent, Whose
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, TopicPartition

NEVER_LEASED = ProducerGrant(LEASED_IDS_FROM + (1 << 40), 3)
LEASE_MS = 500


class Answered(NamedTuple):
    """What came back for one batch."""

    code: ErrorCode
    base_offset: int
    message: str | None


def encoded(grant: ProducerGrant | None, sent: Batch) -> bytearray:
    rows = [Record(0, time.time_ns() // 1_000_000, None, b"%d" % row) for row in range(sent.record_count)]
    if grant is None:
        return encode_batch(rows)
    return encode_batch(
        rows,
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch + sent.producer_epoch,
        base_sequence=sent.base_sequence,
    )


class Stage:
    """One row on one partition of a log that is running."""

    def __init__(
        self, cluster: Cluster, row: Row, tp: TopicPartition, past: ProducerGrant | None = None
    ) -> None:
        """``past``: the grant of ``row.before``, when the log has the first of it already."""
        self._cluster, self._row, self._tp = cluster, row, tp
        self._past = past
        self._lease: Lease | None = None
        self._lease_ends_s = 0.0

    def play(self) -> Answered:
        """What is answered to the row's batch, after all that comes before it."""
        while True:
            grant = self._taken_before()
            if self._lease is not None and self._row.whose is Whose.LEASE_OVER:
                self._until_over(self._lease)
            answered = self._send(grant, self._row.sent)
            needs_lease = self._row.whose in {Whose.LEASED, Whose.PASSED_OVER}
            if not needs_lease or time.monotonic() < self._lease_ends_s:
                return answered  # else a busy machine was too slow for the lease

    def _taken_before(self) -> ProducerGrant | None:
        """The row's producer, from which the log has taken what the row says."""
        while True:
            grant = self._grant()
            before = self._row.before if self._past is None else self._row.before[1:]
            codes = [self._send(grant, sent).code for sent in before]
            if all(code is ErrorCode.NONE for code in codes):
                return grant
            assert self._row.whose is Whose.LEASE_OVER, codes  # too slow, likewise

    def _grant(self) -> ProducerGrant | None:
        match self._row.whose:
            case Whose.NOBODY:
                return None
            case Whose.STOCK:
                return self._past or self._cluster.init_producer_id()
            case Whose.NEVER_LEASED:
                return NEVER_LEASED
            case Whose.PASSED_OVER:
                self._lease_ends_s = time.monotonic() + LEASE_MS / 1_000
                stock = self._cluster.init_producer_id()
                lease = self._cluster.lease_producer_id([self._tp])
                assert stock.producer_id < lease.producer_id - LEASED_IDS_FROM
                return ProducerGrant(LEASED_IDS_FROM + stock.producer_id, 3)
            case _:
                self._lease_ends_s = time.monotonic() + LEASE_MS / 1_000
                lease = self._cluster.lease_producer_id([self._tp])
                assert isinstance(lease, Lease)
                self._lease = lease
                return lease.grant

    def _until_over(self, lease: Lease) -> None:
        """The server says when."""
        while True:
            try:
                self._cluster.lease_producer_id([], lease.producer_id, -1)
            except BrokerError as error:
                if error.code is ErrorCode.UNKNOWN_PRODUCER_ID:
                    return
                assert error.code is ErrorCode.PRODUCER_FENCED
            time.sleep(0.02)

    def _send(self, grant: ProducerGrant | None, sent: Sent) -> Answered:
        """Until it is judged: a new topic's leader may not be ready."""
        while True:
            answered = self._attempt(grant, sent)
            if not answered.code.retriable:
                return answered
            time.sleep(0.02)

    def _attempt(self, grant: ProducerGrant | None, sent: Sent) -> Answered:
        if isinstance(sent, Marker):
            assert grant is not None
            fence = (grant.producer_id, grant.producer_epoch + sent.producer_epoch)
            fenced = self._cluster.write_fence({fence: [self._tp]})
            return Answered(fenced[grant.producer_id, self._tp], -1, None)
        produced = self._cluster.produce({self._tp: encoded(grant, sent)})[self._tp]
        return Answered(produced.error_code, produced.base_offset, produced.error_message)
