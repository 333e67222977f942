"""One partition as its producers' state and the leases alone: rows of the verdict table without a server."""

from __future__ import annotations

from semel.core.lease import LiveLeases
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.table import Batch, Marker, Row, Sent, Whose
from semel.core.producer_state.verdict import (
    Append,
    Duplicate,
    LeaseExpired,
    Verdict,
    error_code,
    judge_lease,
    judge_marker,
)
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.types import LEASED_IDS_FROM, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant, is_leased

_GRANTS = {
    Whose.NOBODY: ProducerGrant(NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
    Whose.STOCK: ProducerGrant(7, 0),
    Whose.LEASED: ProducerGrant(LEASED_IDS_FROM + 3, 40),
    Whose.LEASE_OVER: ProducerGrant(LEASED_IDS_FROM + 3, 40),
    Whose.NEVER_LEASED: ProducerGrant(LEASED_IDS_FROM + 9, 40),
}


class LogInMemory:
    """Judges as a partition does, and takes what it judges new."""

    def __init__(self, grant: ProducerGrant) -> None:
        self.grant = grant
        self.state = ProducerState()
        self.leases = LiveLeases(LEASED_IDS_FROM, LEASED_IDS_FROM + 5)
        self.stored: list[BatchHeader] = []

    @classmethod
    def of(cls, row: Row) -> LogInMemory:
        """The log that has taken what comes before the row's batch."""
        log = cls(_GRANTS[row.whose])
        for sent in row.before:
            log.append(log.header(sent))
        if row.whose is Whose.LEASE_OVER:
            log.leases.expired_below = log.grant.producer_id + 1
        return log

    def header(self, sent: Sent) -> BatchHeader:
        grant, is_batch = self.grant, isinstance(sent, Batch)
        count, sequence = (sent.record_count, sent.base_sequence) if isinstance(sent, Batch) else (1, -1)
        epoch = grant.producer_epoch + sent.producer_epoch
        attributes = 0 if is_batch else 0x30
        return BatchHeader(
            0, 100, -1, 2, 0, attributes, count - 1, 0, 0, grant.producer_id, epoch, sequence, count
        )

    def send(self, sent: Sent) -> tuple[Verdict, ErrorCode, int | None]:
        """The verdict, and the code and the known offset of its answer."""
        header = self.header(sent)
        if isinstance(sent, Marker):
            verdict = self.judge_marker(header)
            return verdict, ErrorCode.NONE if isinstance(verdict, Duplicate) else error_code(verdict), None
        verdict = self.judge(header)
        return verdict, error_code(verdict), verdict.base_offset if isinstance(verdict, Duplicate) else None

    def judge(self, header: BatchHeader) -> Verdict:
        refused = None
        if is_leased(header.producer_id):
            refused = judge_lease(header.producer_id, header.base_sequence, self.leases)
        return refused or self.state.judge(header)

    def judge_marker(self, header: BatchHeader) -> Verdict:
        if is_leased(header.producer_id):
            refused = judge_lease(header.producer_id, header.base_sequence, self.leases)
            if refused is not None:
                return Duplicate(None) if isinstance(refused, LeaseExpired) else refused
        return judge_marker(self.state.get(header.producer_id), header.producer_epoch)

    def append(self, header: BatchHeader) -> int:
        """Take a batch or a marker, whatever the judge would say."""
        base_offset = self.state.end_offset
        if header.is_control:
            self.state.apply_marker(header, base_offset, 0, now_ms=0)
        else:
            self.state.apply(header, base_offset, now_ms=0)
            self.stored.append(header)
        return base_offset

    def take(self, header: BatchHeader) -> tuple[ErrorCode, int]:
        """A client's batch as a server takes it: the code and the offset of the answer."""
        verdict = self.judge(header)
        if isinstance(verdict, Append):
            return ErrorCode.NONE, self.append(header)
        known = verdict.base_offset if isinstance(verdict, Duplicate) else None
        return error_code(verdict), -1 if known is None else known
