"""Rows of the verdict table as real batches: on a running log, over the wire.

Of a row with transactions the coordinator vouches for the batches, and writes the markers that end what is open: it
is asked as clients of the older protocol ask it, whose epoch stays as it is.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.peers.same_as_kafka.transacting import Producer, Transactions
from tests.peers.same_as_kafka.wire import Wire

from semel.client.blocking import Cluster
from semel.core.producer_state.table import Batch, Marker, Row, Sent, Whose
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, TopicPartition

NEVER_LEASED = ProducerGrant(LEASED_IDS_FROM + (1 << 40), 3)
LEASE_MS = 500
_OLDER_PRODUCE, _OLDER_END = 11, 4  # of clients that add partitions beforehand


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
        transactional=sent.is_transactional,
    )


class Stage:
    """One row on one partition of a log that is running."""

    def __init__(
        self,
        cluster: Cluster,
        row: Row,
        tp: TopicPartition,
        past: ProducerGrant | None = None,
        wire: Wire | None = None,
    ) -> None:
        """``past``: the grant of ``row.before``, when the log has the first of it already; ``wire``: for what the
        cluster's client does not ask, where the row has transactions.
        """
        self._cluster, self._row, self._tp = cluster, row, tp
        self._past = past
        self._lease: Lease | None = None
        self._lease_ends_s = 0.0
        self._wire = wire
        self._holder: Producer | None = None  # of a transactional id

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
        if self._row.needs_coordinator:
            assert self._wire is not None
            self._holder = Transactions(self._wire).producer()
            return ProducerGrant(self._holder.producer_id, self._holder.producer_epoch)
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
        if self._holder is not None:
            assert grant is not None
            return self._attempt_by_name(self._holder, grant, sent)
        if isinstance(sent, Marker):
            assert grant is not None
            fence = (grant.producer_id, grant.producer_epoch + sent.producer_epoch)
            fenced = self._cluster.write_fence({fence: [self._tp]})
            return Answered(fenced[grant.producer_id, self._tp], -1, None)
        produced = self._cluster.produce({self._tp: encoded(grant, sent)})[self._tp]
        return Answered(produced.error_code, produced.base_offset, produced.error_message)

    def _attempt_by_name(self, holder: Producer, grant: ProducerGrant, sent: Sent) -> Answered:
        topic, producer_epoch = self._tp.topic, grant.producer_epoch + sent.producer_epoch
        if isinstance(sent, Batch):
            name = holder.name if sent.is_transactional else None
            if name is not None and sent in self._row.before:
                while holder.producer_epoch < producer_epoch:
                    holder.init()
            if name is not None and holder.producer_epoch == producer_epoch:
                assert {code for *_, code in holder.add(topic)} == {"none"}
            produced = holder.produce(topic, encoded(grant, sent), _OLDER_PRODUCE, self._tp.partition, name)
            return Answered(ErrorCode(produced.error_code), produced.base_offset, produced.error_message)
        is_open = holder.room.state_of(holder.name) == "Ongoing"
        if is_open and producer_epoch == holder.producer_epoch:
            code = holder.end(commit=False, version=_OLDER_END)[0]
        elif is_open and producer_epoch == holder.producer_epoch + 1:
            code = holder.init()[0]
        else:
            code = holder.room.mark(topic, holder.producer_id, producer_epoch)
        return Answered(ErrorCode[code.upper()], -1, None)
