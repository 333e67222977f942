"""One partition as its producers' state and the leases alone: what a server answers, without a server."""

from __future__ import annotations

from typing import NamedTuple

from semel.core.client.events import LastStored, LogAnswered, ReadBack
from semel.core.lease import LiveLeases
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.table import Marker, Row, Sent, Whose
from semel.core.producer_state.verdict import (
    Append,
    Duplicate,
    LeaseExpired,
    UnknownProducer,
    Verdict,
    error_code,
    judge_lease,
)
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader, Buffer, Record, decode_header, decode_records, encode_batch
from semel.record.control import encode_abort_marker
from semel.types import (
    LEASED_IDS_FROM,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerGrant,
    TopicPartition,
    is_leased,
)

_GRANTS = {
    Whose.NOBODY: ProducerGrant(NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
    Whose.STOCK: ProducerGrant(7, 0),
    Whose.LEASED: ProducerGrant(LEASED_IDS_FROM + 3, 40),
    Whose.LEASE_OVER: ProducerGrant(LEASED_IDS_FROM + 3, 40),
    Whose.NEVER_LEASED: ProducerGrant(LEASED_IDS_FROM + 9, 40),
    Whose.PASSED_OVER: ProducerGrant(LEASED_IDS_FROM + 2, 40),
}


class Taken(NamedTuple):
    """A batch or a marker in the log."""

    base_offset: int
    header: BatchHeader
    values: tuple[str, ...]

    @property
    def grant(self) -> ProducerGrant:
        return ProducerGrant(self.header.producer_id, self.header.producer_epoch)


class LogInMemory:
    """Judges as a partition does, and takes what it judges new. ``leases`` are the server's."""

    def __init__(self, leases: LiveLeases | None = None) -> None:
        self.state = ProducerState()
        self.leases = leases or LiveLeases()
        self.taken: list[Taken] = []
        self.start_offset = 0
        self.passed_over: set[int] = set()  # leased ids that nobody was granted

    # -- what it says

    def judge(self, header: BatchHeader) -> Verdict:
        refused = None
        if is_leased(header.producer_id):
            refused = self._judge_lease(header)
        return refused or self.state.judge(header)

    def _judge_lease(self, header: BatchHeader) -> LeaseExpired | UnknownProducer | Duplicate | None:
        if header.producer_id in self.passed_over:
            return UnknownProducer(header.producer_id, header.base_sequence)
        return judge_lease(header, self.leases)

    def describe(
        self, tp: TopicPartition, grant: ProducerGrant, remaining_ms: int | None = None, asked_ms: int = 0
    ) -> LogAnswered:
        """DescribeProducers; ``remaining_ms`` is what the server knows of the lease."""
        known = self.state.get(grant.producer_id)
        if known is None:
            return LogAnswered(tp, None, None, grant)
        return LogAnswered(tp, known.producer_epoch, known.last_sequence, grant, remaining_ms, asked_ms)

    def read_back(self, ask: ReadBack) -> LogAnswered | None:
        """What a client finds that shuts a grant out and reads the log; None if the fence is refused."""
        grant, behind = ask.grant, ask.behind
        fence = encode_abort_marker(grant.producer_id, grant.producer_epoch + 1, 0, 0)
        verdict = self.judge(decode_header(fence))
        if isinstance(verdict, Append):
            self.append(fence)
        elif not isinstance(verdict, Duplicate | UnknownProducer):
            return None
        is_cut = not self._has_end_of(behind)
        least = self.start_offset if behind is None or is_cut else behind.end_offset
        read = [
            one.header.last_sequence
            for one in self.taken
            if one.grant == grant and not one.header.is_control and one.base_offset >= least
        ]
        return LogAnswered(
            ask.tp,
            grant.producer_epoch,
            max(read, default=None),
            grant,
            is_final=True,
            is_cut=is_cut,
        )

    def _has_end_of(self, behind: LastStored | None) -> bool:
        """Whether all that came behind it is here, and came behind it here."""
        if behind is None:
            return self.start_offset == 0
        if not self.start_offset < behind.end_offset <= self.state.end_offset:
            return behind.end_offset == self.start_offset
        ends = {one.base_offset + one.header.record_count: one for one in self.taken}
        last = ends.get(behind.end_offset)
        return last is not None and (last.grant, last.header.last_sequence) == (
            behind.grant,
            behind.last_sequence,
        )

    @property
    def rows(self) -> list[tuple[ProducerGrant, str]]:
        """Every row that was ever taken, and whose it is; those of nobody are left out."""
        return [
            (one.grant, value)
            for one in self.taken
            for value in one.values
            if one.header.producer_id != NO_PRODUCER_ID
        ]

    # -- what comes in

    def take(self, encoded: Buffer) -> tuple[ErrorCode, int]:
        """A client's batch as a server takes it: the code and the offset of the answer."""
        verdict = self.judge(decode_header(encoded))
        if isinstance(verdict, Append):
            return ErrorCode.NONE, self.append(encoded)
        known = verdict.base_offset if isinstance(verdict, Duplicate) else None
        return error_code(verdict), -1 if known is None else known

    def append(self, encoded: Buffer) -> int:
        """Take a batch or a marker, whatever the judge would say."""
        header, base_offset = decode_header(encoded), self.state.end_offset
        values = (
            () if header.is_control else tuple((row.value or b"").decode() for row in decode_records(encoded))
        )
        self._apply(Taken(base_offset, header, values))
        return base_offset

    def others_write(self, row_count: int) -> None:
        """Somebody without an id."""
        if row_count:
            self.append(encode_batch([Record(0, 0, None, None)] * row_count))

    # -- what happens to it

    def trim(self, row_count: int) -> None:
        self.start_offset = min(self.start_offset + row_count, self.state.end_offset)

    def cut(self, end_offset: int) -> None:
        """Lose the tail, and what it told of its producers."""
        kept = [one for one in self.taken if one.base_offset < end_offset]
        self.make_anew()
        for one in kept:
            self._apply(one)

    def make_anew(self) -> None:
        """The topic is deleted, and created under the same name."""
        self.state, self.start_offset = ProducerState(), 0
        self.taken.clear()

    def forget_expired(self) -> None:
        """Give back what is remembered of leases that are over."""
        for _ in self.state.expire(0, self.leases.expired_below):
            pass

    def _apply(self, one: Taken) -> None:
        if one.header.is_control:
            self.state.apply_marker(one.header, one.base_offset, 0, now_ms=0)
        else:
            self.state.apply(one.header, one.base_offset, now_ms=0)
        self.taken.append(one)


class LogOfRow(LogInMemory):
    """The log that has taken what comes before the batch of one row of the table."""

    def __init__(self, row: Row) -> None:
        super().__init__(LiveLeases(LEASED_IDS_FROM, LEASED_IDS_FROM + 5))
        self.grant = _GRANTS[row.whose]
        if row.whose is Whose.PASSED_OVER:
            self.passed_over.add(self.grant.producer_id)
        for sent in row.before:
            self.append(self.encoded(sent))
        if row.whose is Whose.LEASE_OVER:
            self.leases.expired_below = self.grant.producer_id + 1

    def encoded(self, sent: Sent) -> bytearray:
        producer_id, producer_epoch = self.grant.producer_id, self.grant.producer_epoch + sent.producer_epoch
        if isinstance(sent, Marker):
            return encode_abort_marker(producer_id, producer_epoch, 0, 0)
        return encode_batch(
            [Record(0, 0, None, None)] * sent.record_count,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sent.base_sequence,
            transactional=sent.is_transactional,
        )

    def send(self, sent: Sent) -> tuple[Verdict, ErrorCode, int | None]:
        """The verdict, and the code and the known offset of its answer."""
        header = decode_header(self.encoded(sent))
        verdict = self.judge(header)
        if isinstance(sent, Marker):
            return verdict, ErrorCode.NONE if isinstance(verdict, Duplicate) else error_code(verdict), None
        return verdict, error_code(verdict), verdict.base_offset if isinstance(verdict, Duplicate) else None
