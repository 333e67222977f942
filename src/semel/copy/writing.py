"""How rows get to the destination: under the holder's sequences, in order, several requests in flight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from semel.client.blocking import Cluster
from semel.client.model import Produced
from semel.copy.batches import Ready
from semel.copy.log import CopyLog
from semel.copy.plan import CopyPlan
from semel.copy.proving import LOOK_TIMEOUT_MS
from semel.copy.reading import Part
from semel.copy.topics import not_alone, time_refused
from semel.core.client.resume import Behind
from semel.core.copy.history import written_up_to
from semel.core.copy.journal import Chunk, Next, Place
from semel.core.sink.landing import Landing, landed
from semel.errors import BrokerError, ConfigError, ErrorCode, ReplayUnprovable
from semel.record.batch import BatchHeader, decode_header, restamp
from semel.sequence import advance, distance
from semel.spark.flight import Flight
from semel.spark.process import this_process
from semel.spark.reading import headers_in
from semel.spark.stored_rows import OlderDuplicates
from semel.spark.takeover import listed
from semel.types import LATEST_TIMESTAMP, NO_TIMESTAMP, ProducerGrant, TopicPartition

LOOK_AGAIN_MS: Final = 60_000
PASSED_EVERY_MS: Final = 1_000
SPANS_MAX: Final = 100_000  # of one record of the journal, where it has more than one batch
# Apache Kafka counts a producer's rest from its records' timestamps: it may have forgotten one that sends older rows.
OLD_MS: Final = 3_600_000
_UNREADABLE: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass(slots=True)
class _Output:
    """One partition of the destination. Sequences count on from 0 and do not wrap."""

    sequence: int  # of the next row to be planned
    acknowledged: int
    end: int  # behind the last row that is acknowledged
    ended: int  # the sequence behind that row
    is_blank: bool  # nothing stood there, and no row of the job's is known there yet


class Writer:
    """Plans the holder's rows in the journal, and sends them."""

    def __init__(self, cluster: Cluster, plan: CopyPlan, log: CopyLog) -> None:
        self._cluster, self._plan, self._log = cluster, plan, log
        self._outputs: dict[TopicPartition, _Output] = {}
        self._flight = Flight(cluster, self._take, self._doubt)
        self._flight.stored = self._stored
        self._older = OlderDuplicates(cluster)
        self._sure_ends: dict[TopicPartition, int] = {}
        self._passed: set[TopicPartition] = (
            set()
        )  # read without a row to copy, which the journal does not say
        self._passed_ms = this_process().clock.elapsed_ms()
        self._looked_ms = this_process().clock.now_ms()
        self._proven_by = (
            cluster.connections_opened
        )  # how many there had been when the ends were looked at last
        self.bytes = 0
        self.written: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))  # rows, bytes by output

    def begin_at(self, places: Mapping[TopicPartition, Place]) -> None:
        """Write to these as well."""
        for place in places.values():
            self._outputs.setdefault(
                place.output_partition,
                _Output(
                    place.sequence,
                    place.sequence,
                    place.output_end,
                    place.sequence,
                    place.is_blank and not self._plan.appends,
                ),
            )

    def write(self, parts: Mapping[TopicPartition, Part], places: Mapping[TopicPartition, Place]) -> None:
        """Say what comes next, and send it; returns with a few requests in flight."""
        if sum(len(each.spans) for part in parts.values() for each in part.batches) <= SPANS_MAX:
            self._write(parts, places)
            return
        for source, part in parts.items():  # rows here and there of far more: too much for one record
            for piece in part.pieces(SPANS_MAX):
                self._write({source: piece}, places)

    def _write(self, parts: Mapping[TopicPartition, Part], places: Mapping[TopicPartition, Place]) -> None:
        self._say(parts, places)
        waiting = {places[src].output_partition: part.batches for src, part in parts.items()}
        if self._cluster.connections_opened != self._proven_by:
            self._prove(list(waiting))
        for turn in range(max(map(len, waiting.values()), default=0)):
            self._send({out: batches[turn] for out, batches in waiting.items() if turn < len(batches)})

    def pass_by(self, parts: Mapping[TopicPartition, Part], places: Mapping[TopicPartition, Place]) -> bool:
        """Where nothing that was read is to be copied, say now and then how far that is; whether it was said.

        Whoever comes next would read all of it again.
        """
        self._passed |= set(parts)
        now_ms = this_process().clock.elapsed_ms()
        if not self._passed or now_ms - self._passed_ms < PASSED_EVERY_MS:
            return False
        self._say({}, places)
        return True

    def land(self) -> None:
        """Wait until all is acknowledged."""
        self._flight.land()

    def settled(self, places: Mapping[TopicPartition, Place]) -> dict[TopicPartition, Place]:
        """These, with what was written of them; to be asked when all has landed."""
        made = {}
        for source, place in places.items():
            output = self._outputs[place.output_partition]
            assert output.sequence == output.acknowledged, "it has landed"
            made[source] = replace(
                written_up_to(place, output.end), sequence=output.sequence, is_blank=output.is_blank
            )
        return made

    @property
    def _grant(self) -> ProducerGrant:
        assert self._log.grant is not None, "the job is held"
        return self._log.grant

    def _say(self, parts: Mapping[TopicPartition, Part], places: Mapping[TopicPartition, Place]) -> None:
        passed = {
            source: Part((), places[source].offset, places[source].mark, 0, places[source].clean)
            for source in self._passed - parts.keys()
            if source in places
        }
        chunks = (
            self._chunk(source, part, places[source].output_partition)
            for source, part in (*parts.items(), *passed.items())
        )
        self._log.append(Next(self._grant, tuple(chunks)))
        self._passed.clear()
        self._passed_ms = this_process().clock.elapsed_ms()
        self._looked_ms = this_process().clock.now_ms()

    def _chunk(self, source: TopicPartition, part: Part, out: TopicPartition) -> Chunk:
        output = self._outputs[out]
        return Chunk(
            source,
            part.spans,
            part.end,
            output.sequence,
            output.acknowledged,
            output.end,
            part.mark,
            part.clean,
        )

    def _send(self, ready: Mapping[TopicPartition, Ready]) -> None:
        now_ms = this_process().clock.now_ms()
        if abs(now_ms - self._looked_ms) > LOOK_AGAIN_MS:
            self._log.look_again()
            self._looked_ms = now_ms
        stamped = {}
        for out, each in ready.items():
            output = self._outputs[out]
            stamped[out] = restamp(
                each.batch,
                producer_id=self._grant.producer_id,
                producer_epoch=self._grant.producer_epoch,
                base_sequence=advance(0, output.sequence),
            )
            output.sequence += each.rows
            self.bytes += len(stamped[out])
            rows, size_bytes = self.written[out.topic]
            self.written[out.topic] = rows + each.rows, size_bytes + len(stamped[out])
        if min(each.newest_ms for each in ready.values()) < now_ms - OLD_MS:
            self._flight.land()
        self._flight.send(stamped)

    def _prove(self, outputs: list[TopicPartition]) -> None:
        """That they have what was acknowledged: on another connection it may be an older copy of the log that answers.

        Its answer to rows would tell, too, and they would stand behind a hole.
        """
        opened = self._cluster.connections_opened
        try:
            ends = listed(self._cluster, outputs, LATEST_TIMESTAMP)
        except BrokerError as error:
            if not error.code.retriable:
                raise
            return  # the rows will tell
        for tp in outputs:
            if ends[tp] < self._outputs[tp].end:
                raise self._lost(tp, f"ends at offset {ends[tp]}", self._outputs[tp].end)
        self._proven_by = opened

    def _lost(self, tp: TopicPartition, found: str, end: int) -> ReplayUnprovable:
        return ReplayUnprovable(
            f"{tp} {found}, and rows of job {self._plan.name!r} are stored there up to offset {end - 1}: it has lost "
            f"its end, or is another one by now. Nothing more was copied"
        )

    def _take(self, tp: TopicPartition, answer: Produced, batch: BatchHeader) -> None:
        code = answer.error_code
        if code in _FENCED:
            self._log.look_again()
            raise BrokerError(
                code, f"{tp} refuses the rows of job {self._plan.name!r}, which nobody has taken over"
            )
        if code in _TOO_LARGE:
            raise ConfigError(
                f"{tp} does not take a batch of {batch.size_bytes} bytes that the source has. It is not stored there, "
                f"and nothing behind it. Raise max.message.bytes of {tp.topic!r}, and start the job again"
            )
        if code is ErrorCode.INVALID_TIMESTAMP:
            why = f" ({answer.error_message})" if answer.error_message else ""
            now_ms = this_process().clock.now_ms()
            raise time_refused(self._plan, self._cluster, tp, batch.max_timestamp, now_ms, why)
        is_gap = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if is_gap and self._older.has(tp, batch, self._sure_ends.get(tp, self._outputs[tp].end)):
            code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if code not in _STORED:
            way_on = "start the job again"
            if code in _UNREADABLE:
                way_on = "where it cannot read a batch that the source has, --dead-letter TOPIC goes past it"
            raise BrokerError(
                code,
                f"writing to {tp} (what is stored stays; {way_on})",
                answer.error_message or "",
            )
        output = self._outputs[tp]
        ahead = distance(batch.base_sequence, advance(0, output.ended))
        # An answer was lost, and one to a later request was not.
        end = output.end if ahead >= 0 else self._sure_ends[tp]
        if landed(code, answer.base_offset, end, end) is Landing.ELSEWHERE:
            raise self._lost(tp, f"says that rows are stored at offset {answer.base_offset}", end)
        if output.is_blank:  # a partition's first batch is awaited before another one is sent there
            self._check_alone(tp, output.end, answer.base_offset)
            output.is_blank = False
        output.acknowledged += batch.last_offset_delta + 1
        if answer.base_offset >= 0 and ahead >= 0:
            output.end = answer.base_offset + batch.last_offset_delta + 1
            output.ended += ahead + batch.last_offset_delta + 1

    def _check_alone(self, tp: TopicPartition, start: int, base_offset: int) -> None:
        """``ConfigError`` where somebody was faster: two jobs that begin at once both find an output empty."""
        if base_offset == start:
            return
        end = base_offset if base_offset >= 0 else listed(self._cluster, [tp], LATEST_TIMESTAMP)[tp]
        for header in headers_in(
            self._cluster, tp, start, end, fail_on_data_loss=False, poll_timeout_ms=LOOK_TIMEOUT_MS
        ):
            if header.producer_id not in self._log.history.held_epochs:
                raise not_alone(self._plan, tp, header)
            if not header.is_control:
                return

    def _doubt(self, partitions: Iterable[TopicPartition]) -> None:
        self._sure_ends = {tp: self._outputs[tp].end for tp in partitions}

    def _stored(self, batches: Mapping[TopicPartition, bytearray]) -> dict[TopicPartition, Produced]:
        """Which of these stand there: a broker may have forgotten the producer, and would store them again."""
        ends = listed(self._cluster, list(batches), LATEST_TIMESTAMP)
        answers = {}
        for tp, batch in batches.items():
            base_sequence = decode_header(batch).base_sequence
            start = self._sure_ends.get(tp, self._outputs[tp].end)
            found = headers_in(self._cluster, tp, start, ends[tp], poll_timeout_ms=LOOK_TIMEOUT_MS)
            offset, behind = None, Behind(start)
            for header in found:
                whose = ProducerGrant(header.producer_id, header.producer_epoch)
                is_it = (
                    whose == self._grant and not header.is_control and header.base_sequence == base_sequence
                )
                behind.read(header, is_its=is_it)
                if is_it:
                    offset = header.base_offset
            if offset is not None:
                answers[tp] = Produced(ErrorCode.NONE, offset, NO_TIMESTAMP, -1)
            elif behind.lacks_some:
                raise ReplayUnprovable(
                    f"{tp} was compacted, and its leader has forgotten job {self._plan.name!r}: whether the rows that "
                    f"it sent last are there cannot be known. Nothing more was copied; have {tp.topic!r} keep its rows "
                    f"(cleanup.policy=delete), and copy to another topic"
                )
        return answers
