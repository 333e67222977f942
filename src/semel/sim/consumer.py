"""A consumer process: fetches one partition from its start, and shows the checkers all that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from semel.errors import ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.sim.checkers import Checker
from semel.sim.history import LoggedBatch
from semel.sim.network import Network
from semel.sim.scheduler import Scheduler
from semel.sim.session import RECONNECT_MS, Session
from semel.types import TopicPartition
from semel.wire import fetch
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer

FETCH_VERSION: Final = 12
FETCH_WAIT_MS: Final = 500
FETCH_PAUSE_MS: Final = 120
FETCH_BYTES_MAX: Final = 2_000


def logged_batches(records: Buffer) -> list[LoggedBatch]:
    """The batches of a fetch answer or a segment, with their values."""
    batches = []
    for view, header in scan_batches(records, allow_partial_tail=True):
        values = () if header.is_control else tuple(record.value or b"" for record in decode_records(view))
        batches.append(LoggedBatch(header, values))
    return batches


class SimulatedConsumer:
    """Reads on for ever, through every crash."""

    def __init__(
        self, tp: TopicPartition, scheduler: Scheduler, network: Network, checkers: Sequence[Checker]
    ) -> None:
        self.tp: Final = tp
        self.next_offset = 0
        self._scheduler = scheduler
        self._checkers = checkers
        self._session = Session(f"reader{tp.partition}", scheduler, network)
        scheduler.after(1, self._fetch)

    def _fetch(self) -> None:
        partition = fetch.FetchPartition(self.tp.topic, self.tp.partition, self.next_offset, FETCH_BYTES_MAX)
        request = fetch.FetchRequest(FETCH_WAIT_MS, 1, FETCH_BYTES_MAX, fetch.READ_COMMITTED, [partition])

        def done(body: memoryview | None, sent: bool) -> None:
            pause_ms = RECONNECT_MS if body is None else FETCH_PAUSE_MS
            if body is not None:
                self._take(fetch.decode_response(FETCH_VERSION, body))
            self._scheduler.after(pause_ms, self._fetch)

        body = fetch.encode_request(FETCH_VERSION, request)
        self._session.request(ApiKey.FETCH, FETCH_VERSION, [body], done)

    def _take(self, response: fetch.FetchResponse) -> None:
        for answer in response.partitions:
            if answer.error_code != ErrorCode.NONE:
                continue
            batches = logged_batches(answer.records or b"")
            for checker in self._checkers:
                checker.read(self.tp, batches, answer.high_watermark)
            if batches:
                self.next_offset = max(self.next_offset, batches[-1].header.last_offset + 1)
