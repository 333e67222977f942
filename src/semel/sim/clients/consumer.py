"""A consumer process: fetches one partition from a start on, and shows the checkers all that it reads.

What it is given it believes only after the batch's own CRC: a batch that fails it is never taken.
"""

from __future__ import annotations

from typing import Final

from semel.errors import CorruptRecordBatch, ErrorCode
from semel.sim.checkers.watchers import LogWatcher
from semel.sim.clients.session import RECONNECT_MS, Session
from semel.sim.server.witness import logged_batches
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition
from semel.wire import fetch
from semel.wire.api import ApiKey

FETCH_VERSION: Final = 12
FETCH_WAIT_MS: Final = 500
FETCH_PAUSE_MS: Final = 40
FETCH_BYTES_MAX: Final = 2_000


class SimulatedConsumer:
    """Reads on for ever, through every crash."""

    def __init__(
        self,
        name: str,
        tp: TopicPartition,
        around: Surroundings,
    ) -> None:
        self.tp: Final = tp
        self.next_offset = 0
        self.corrupt_batches = 0
        self.refusals = 0  # how often the partition was said to be offline
        self.process = Process(around.scheduler)
        self._watcher = around.watchers.of(LogWatcher)
        self._history = around.history
        self._session = Session(name, self.process, around.network)
        self.process.after(1, self._fetch)

    def die(self) -> None:
        self.process.alive = False
        self._session.die()

    def _fetch(self) -> None:
        partition = fetch.FetchPartition(self.tp.topic, self.tp.partition, self.next_offset, FETCH_BYTES_MAX)
        request = fetch.FetchRequest(FETCH_WAIT_MS, 1, FETCH_BYTES_MAX, fetch.READ_COMMITTED, [partition])

        def done(body: memoryview | None) -> None:
            pause_ms = RECONNECT_MS if body is None else FETCH_PAUSE_MS
            if body is not None:
                self._take(fetch.decode_response(FETCH_VERSION, body))
            self.process.after(pause_ms, self._fetch)

        body = fetch.encode_request(FETCH_VERSION, request)
        self._session.request(ApiKey.FETCH, FETCH_VERSION, [body], done)

    def _take(self, response: fetch.FetchResponse) -> None:
        for answer in response.partitions:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.next_offset = max(self.next_offset, answer.log_start_offset)
            if answer.error_code != ErrorCode.NONE:
                self.refusals += 1
                continue
            try:
                batches = logged_batches(answer.records or b"")
            except CorruptRecordBatch:
                if not self._history.is_rotten:
                    raise
                self.corrupt_batches += 1
                continue
            self._watcher.read(self.tp, batches, answer.high_watermark)
            if batches:
                self.next_offset = max(self.next_offset, batches[-1].header.last_offset + 1)
