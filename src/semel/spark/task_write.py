"""A sink task: from Spark's Arrow batches to the log, and a report of what stands there.

The order is the protocol's (step 6): one range note, skip or write, WRITER, compare every prefix with what
the scan found, and only then the first new row. Rows go out in the order they come, so an attempt that is
repeated repeats the very same sequences.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from semel.core.sink.digest import NO_ROWS, Digest
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Attempt, WriterClaim
from semel.core.sink.ranges import SourceRange
from semel.core.sink.run import Ticket, writer_epoch
from semel.core.sink.task import (
    OutputReport,
    PrefixCheck,
    TaskReport,
    claimed,
    fewer_rows,
    late,
    other_rows,
    surplus_allowed,
)
from semel.errors import BrokerError, ErrorCode, SinkFenced
from semel.record.batch import decode_header
from semel.record.columnar import encode_columns
from semel.record.compression import Compression
from semel.sequence import advance
from semel.spark.options import SinkOptions
from semel.spark.output import Rows, rows_of, spread
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, produce_until_answered
from semel.spark.stored_rows import stored_rows
from semel.types import TopicPartition

_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


@dataclass(slots=True)
class _Output:
    """One output partition, as this attempt goes along."""

    next_sequence: int
    end_offset: int
    digest: Digest = NO_ROWS
    surplus_from: int | None = None


@dataclass(slots=True)
class TaskWrite:
    """One attempt of one writer."""

    options: SinkOptions
    ticket: Ticket
    writer: str
    source_range: SourceRange | None
    task_attempt_id: int
    attempt_number: int
    query_id: str
    producer_id: int = -1
    row_count: int = 0
    duplicates: bool = False
    outputs: dict[TopicPartition, _Output] = field(default_factory=dict)

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        """Write every row, or raise before the first one."""
        check = PrefixCheck.of(self.ticket, self.writer, self._partitions())
        incoming = iter(batches)
        with tempfile.TemporaryFile(prefix="semel-spool-") as file:
            spool = _Spool(file)
            while not check.settled:
                batch = next(incoming, None)
                if batch is None:
                    self._meet_surplus(check)
                    break
                spool.write(self._compare(check, batch))
            for piece in spool.read():
                self._send(piece)
        for batch in incoming:
            self._send(dict(self._spread(batch)))
        return self._report()

    def _partitions(self) -> list[TopicPartition]:
        output = self.ticket.output
        return [TopicPartition(output.topic, number) for number in range(output.partition_count)]

    def _spread(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, Rows]]:
        rows, explicit = rows_of(batch)
        first_row = self.ticket.rows_total.get(self.writer, 0) + self.row_count
        self.row_count += len(rows)
        output = self.ticket.output
        for number, part in spread(rows, explicit, self.writer, first_row, output.partition_count):
            tp = TopicPartition(output.topic, number)
            state = self._output(tp)
            state.digest = state.digest.over(part.keys, part.values, part.headers)
            yield tp, part

    def _output(self, tp: TopicPartition) -> _Output:
        if tp not in self.outputs:
            stored = self.ticket.have.get((self.writer, tp))
            self.outputs[tp] = _Output(
                next_sequence=self.ticket.next_sequences.get((self.writer, tp), 0),
                end_offset=self.ticket.scanned_from.get(tp, 0) if stored is None else stored.end_offset,
            )
        return self.outputs[tp]

    def _compare(self, check: PrefixCheck, batch: pa.RecordBatch) -> dict[TopicPartition, Rows]:
        new = {}
        for tp, rows in self._spread(batch):
            stored = allow(check.feed(tp, rows.keys, rows.values, rows.headers))
            if stored < len(rows):
                new[tp] = rows.drop(stored)
        return new

    def _meet_surplus(self, check: PrefixCheck) -> None:
        """Fewer rows came than are stored: an error, unless another query cuts its batches elsewhere."""
        for tp, seen in check.unmet.items():
            stored = check.expected[tp]
            if self.source_range is None or not surplus_allowed(self.ticket, self.writer, tp, self.query_id):
                allow(fewer_rows(self.writer, tp, seen.count, stored.count))
            output = self._output(tp)
            digest = NO_ROWS
            output.surplus_from = self.ticket.scan_from(self.writer, tp)
            log = SinkLog(self.options.connection, self.ticket.sink_id)
            found = stored_rows(
                log.cluster,
                tp,
                {self.ticket.producer_ids[self.writer]: output.surplus_from},
                self.ticket.have[self.writer, tp].end_offset,
            )
            for _, rows, offsets in found:
                wanted = rows.first(seen.count - digest.count)
                digest = digest.over(wanted.keys, wanted.values, wanted.headers)
                if len(wanted):
                    output.surplus_from = int(offsets[len(wanted) - 1].as_py()) + 1
            if digest != seen:
                allow(other_rows(self.writer, tp, seen.count))

    def _send(self, pieces: dict[TopicPartition, Rows]) -> None:
        pieces = {tp: rows for tp, rows in pieces.items() if len(rows)}
        if not pieces:
            return
        log = SinkLog(self.options.connection, self.ticket.sink_id)
        if self.producer_id < 0:
            self.producer_id = self._claim(log)
        encoded = {tp: self._encode(tp, rows) for tp, rows in pieces.items()}
        for turn in range(max(map(len, encoded.values()))):
            now = {tp: batches[turn] for tp, batches in encoded.items() if turn < len(batches)}
            answers = produce_until_answered(
                log.cluster, {tp: bytes(batch) for tp, (batch, _) in now.items()}
            )
            for tp, answer in answers.items():
                self._take(tp, answer, now[tp][1])

    def _encode(self, tp: TopicPartition, rows: Rows) -> list[tuple[bytearray, int]]:
        output = self._output(tp)
        batches = encode_columns(
            rows.keys,
            rows.values,
            rows.timestamps if rows.timestamps is not None else time.time_ns() // 1_000_000,
            headers=rows.headers,
            producer_id=self.producer_id,
            producer_epoch=writer_epoch(self.ticket.sink_epoch),
            base_sequence=output.next_sequence,
            batch_bytes_max=self.options.batch_bytes_max,
            compression=Compression[self.options.compression.upper()],
        )
        output.next_sequence = advance(output.next_sequence, len(rows))
        return [(batch, decode_header(batch).record_count) for batch in batches]

    def _take(self, tp: TopicPartition, answer: Any, record_count: int) -> None:
        code = ErrorCode.of(answer.error_code)
        if code in _FENCED:
            raise SinkFenced(
                f"another driver has taken sink {self.ticket.sink_id!r} over: {tp} refuses this one's rows"
            )
        if (
            code is ErrorCode.INVALID_RECORD
        ):  # straddles the high-water mark: an attempt with other rows was here
            allow(other_rows(self.writer, tp, record_count))
        if code not in _STORED:
            raise BrokerError(code, f"writing rows of {self.writer} to {tp}", answer.error_message or "")
        output = self._output(tp)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or answer.base_offset < 0:
            self.duplicates = True
        else:
            output.end_offset = max(output.end_offset, answer.base_offset + record_count)

    def _claim(self, log: SinkLog) -> int:
        """Whose producer id to write with. A known writer's first attempt needs no question."""
        ticket = self.ticket
        known = ticket.producer_ids.get(self.writer)
        if known is not None and self.attempt_number == 0:
            return known
        since = SinkHistory(ticket.sink_id, ticket.journal_end_offset, producer_ids=dict(ticket.producer_ids))
        if self.attempt_number > 0:
            log.append(Attempt(ticket.sink_id, self.writer, ticket.sink_epoch, self.task_attempt_id))
        if known is None:
            grant = log.cluster.init_producer_id()
            log.append(WriterClaim(ticket.sink_id, self.writer, grant.producer_id, ticket.sink_epoch))
        log.read(since)
        if self.attempt_number > 0:
            refusal = late(since, ticket.sink_epoch)
            if refusal is not None:
                allow(refusal)
        return allow(claimed(since, ticket.sink_epoch, self.writer))

    def _report(self) -> TaskReport:
        return TaskReport(
            self.writer,
            self.source_range,
            self.producer_id if self.producer_id >= 0 else self.ticket.producer_ids.get(self.writer, -1),
            self.row_count,
            {
                tp: OutputReport(output.digest, output.next_sequence, output.end_offset, output.surplus_from)
                for tp, output in self.outputs.items()
            },
        )


class _Spool:
    """New rows that wait until all prefixes have matched, on disk."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._pieces: list[list[TopicPartition]] = []

    def write(self, piece: dict[TopicPartition, Rows]) -> None:
        self._pieces.append(list(piece))
        for rows in piece.values():
            columns = {
                name: column
                for name, column in (
                    ("key", rows.keys),
                    ("value", rows.values),
                    ("headers", rows.headers),
                    ("timestamp", rows.timestamps),
                )
                if column is not None
            }
            batch = pa.record_batch(list(columns.values()), names=list(columns))
            with pa.ipc.new_stream(self._file, batch.schema) as stream:
                stream.write_batch(batch)

    def read(self) -> Iterator[dict[TopicPartition, Rows]]:
        self._file.seek(0)
        for partitions in self._pieces:
            piece = {}
            for tp in partitions:
                with pa.ipc.open_stream(self._file) as stream:
                    table = stream.read_all().combine_chunks()
                columns = {name: table.column(name).combine_chunks() for name in table.column_names}
                piece[tp] = Rows(
                    columns.get("key"), columns["value"], columns.get("headers"), columns.get("timestamp")
                )
            yield piece
