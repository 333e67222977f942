"""What comes next of the source: whole batches of committed rows, as they are wherever they can stay so."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from semel.client.blocking import Cluster
from semel.client.dead_letters import DeadLetters
from semel.client.model import Fetched
from semel.client.unreadable import unreadable
from semel.copy.batches import Ready, choose_clean, choose_where, ready_batches
from semel.copy.plan import CopyPlan
from semel.core.copy.clean import Cleaner, with_rest
from semel.core.copy.journal import Clean, Mark, Place
from semel.core.copy.spans import Spans, joined
from semel.core.same_batch import is_another
from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    CorruptRecordBatch,
    DataLoss,
    ErrorCode,
    UnreadableBatch,
)
from semel.record.batch import BatchHeader, scan_batches
from semel.record.where import compile_where
from semel.spark.options import Isolation
from semel.spark.process import this_process
from semel.spark.reading import committed_part, offset_behind, whole_batches
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

FETCH_BYTES_MAX: Final = 16 * 2**20
PARTITION_BYTES_MAX: Final = 4 * 2**20
MARKS_MAX: Final = 10_000  # of one job
_LOG: Final = logging.getLogger("semel.copy")
_OTHER_TOPIC: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
_WAY_ON: Final = (
    "what is in front of it is copied. --dead-letter TOPIC copies what is behind it, and keeps the batch in that topic "
    "of the destination"
)
_TURN_MAX_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Part:
    """What one fetch gave of one partition: the batches, and where it goes on."""

    batches: tuple[Ready, ...]
    end: int
    mark: Mark | None
    lag: int  # offsets behind ``end`` that were there when it was asked
    clean: Clean | None = None  # behind ``end``, of a job that cleans

    @property
    def spans(self) -> Spans:
        return joined(span for each in self.batches for span in each.spans)

    def pieces(self, spans_max: int) -> list[Part]:
        """The same in order, each piece with so many spans at most, or one batch."""
        made: list[list[Ready]] = []
        room = 0
        for each in self.batches:
            if len(each.spans) > room:
                made.append([])
                room = spans_max
            made[-1].append(each)
            room -= len(each.spans)
        pieces = []
        for number, batches in enumerate(made[:-1], 1):
            left = tuple(span for later in made[number:] for each in later for span in each.spans)
            clean = None if self.clean is None else with_rest(self.clean, self.end, left)
            pieces.append(Part(tuple(batches), batches[-1].spans[-1][1], None, self.lag, clean))
        return [*pieces, Part(tuple(made[-1]) if made else (), self.end, self.mark, self.lag, self.clean)]


class SourceReader:
    """Goes through all partitions at once; the next fetch is under way while the caller works on an answer."""

    def __init__(self, cluster: Cluster, plan: CopyPlan) -> None:
        self._cluster, self._plan = cluster, plan
        self._places: dict[TopicPartition, Place] = {}
        self._lags: dict[TopicPartition, int] = {}
        self._asked: Future[dict[TopicPartition, Fetched]] | None = None
        self._asked_of: dict[TopicPartition, int] = {}
        self._where = None if plan.where is None else partial(choose_where, compile_where(plan.where))
        self._tiered: dict[str, bool] = {}
        self._lost_since_ms: int | None = None
        self._proven_by = -1  # how many connections there had been
        topic = plan.dead_letter_topic
        self._letters = None if topic is None else DeadLetters(plan.destination.bootstrap, topic)
        self._damaged: dict[TopicPartition, int] = {}  # where a batch was found so once
        self.has_changed = False  # a topic is not the one any more that it was

    def begin_at(self, places: Mapping[TopicPartition, Place]) -> None:
        """Read these from their places on, beside those that are read already.

        :class:`~semel.errors.DataLoss` where the source has no more what was copied of it.
        """
        ends = self._listed(places, LATEST_TIMESTAMP, "read_uncommitted")
        for source, place in places.items():
            self._prove(source, place, ends[source])
        self._places |= places

    def leave(self, sources: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for source in sources:
            self._places.pop(source, None)
            self._lags.pop(source, None)

    @property
    def places(self) -> Mapping[TopicPartition, Place]:
        """How far each was read."""
        return self._places

    def lags(self) -> Counter[str]:
        """Of each topic, the offsets that the source had by the last answers, and that were not read yet."""
        lags: Counter[str] = Counter()
        for source, lag in self._lags.items():
            lags[source.topic] += lag
        return lags

    @property
    def is_away(self) -> bool:
        """Whether the source does not answer now."""
        return self._lost_since_ms is not None

    def ends(self) -> dict[TopicPartition, int]:
        """What a reader of committed rows can read now."""
        return self._listed(self._places, LATEST_TIMESTAMP)

    def next(self) -> dict[TopicPartition, Part]:
        """What came, none where there was nothing for a moment."""
        if not self._places:
            this_process().clock.pause(self._plan.linger_ms)
            return {}
        asked = self._asked or self._ask()
        self._asked = None
        of = self._asked_of
        try:
            answer = asked.result()
        except ConnectionLost:
            self._wait_for_source()
            return {}
        self._lost_since_ms = None
        if self._cluster.connections_opened != self._proven_by and not self._has_come_back():
            return {}
        parts = {}
        has_nothing = not any(
            fetched.error_code or fetched.records or fetched.is_elsewhere for fetched in answer.values()
        )
        for source, fetched in answer.items():
            place = self._places.get(source)
            if place is None or of[source] != place.offset:
                continue  # it was moved meanwhile
            part = self._part(source, place, fetched)
            if part is None and has_nothing:
                part = self._empty_end(source, place, fetched)
            if part is not None and part.end > place.offset:
                parts[source] = part
                self._places[source] = replace(place, offset=part.end, mark=part.mark, clean=part.clean)
                self._lags[source] = part.lag
        self._check_marks()
        self._asked = self._ask()
        return parts

    def close(self) -> None:
        if self._letters is not None:
            self._letters.close()
        if self._asked is not None:
            self._asked.cancel()

    def _has_come_back(self) -> bool:
        """Whether the source still has what was copied, now that it is another connection that says what comes next.

        The client connects anew by itself; meanwhile the source may have been put back from an older copy.
        """
        opened = self._cluster.connections_opened
        try:
            ends = self._listed(self._places, LATEST_TIMESTAMP, "read_uncommitted")
            for source, place in self._places.items():
                self._prove(source, place, ends[source])
        except ConnectionLost:
            self._wait_for_source()
            return False
        except BrokerError as error:
            if error.code not in _OTHER_TOPIC and not error.code.retriable:
                raise
            self.has_changed = True
            this_process().clock.pause(self._plan.linger_ms)
            return False
        self._proven_by = opened
        return True

    def _ask(self) -> Future[dict[TopicPartition, Fetched]]:
        """In an order that goes round, for an answer is filled from its first partition on."""
        sources = list(self._places)
        first = (
            sources.index(next(iter(self._asked_of))) + 1
            if next(iter(self._asked_of), None) in self._places
            else 0
        )
        sources = sources[first:] + sources[:first]
        self._asked_of = {source: self._places[source].offset for source in sources}
        ids = {
            source.topic: UUID(place.topic_id)
            for source, place in self._places.items()
            if place.topic_id is not None
        }
        rate = self._plan.bytes_per_s or FETCH_BYTES_MAX
        return self._cluster.begin_fetch(
            self._asked_of,
            max_wait_ms=min(_TURN_MAX_MS, self._plan.linger_ms),
            min_bytes=PARTITION_BYTES_MAX // 16,
            max_bytes=min(FETCH_BYTES_MAX, rate),  # else it would come in bursts, with long pauses in between
            partition_max_bytes=min(PARTITION_BYTES_MAX, rate),
            isolation="read_committed",
            topic_ids=ids,
        )

    def _part(self, source: TopicPartition, place: Place, fetched: Fetched) -> Part | None:
        code = fetched.error_code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(source, place)
            return None
        if code in _OTHER_TOPIC:
            self.has_changed = True  # gone, or made anew: whoever looks at the topics finds out which
            this_process().clock.pause(self._plan.linger_ms)
            return None
        if code is not ErrorCode.NONE:
            if not code.retriable:
                raise BrokerError(
                    code, f"fetching {source} from offset {place.offset} (nothing of it is lost)"
                )
            this_process().clock.pause(self._plan.linger_ms)
            return None
        try:
            found = whole_batches(source, fetched, place.offset)
        except UnreadableBatch as damage:
            return self._past_damage(place, damage, fetched)
        if not found:
            self._lags[source] = max(0, fetched.last_stable_offset - place.offset)
            return None
        end = offset_behind(source, found, place.offset)
        cleaner = None if place.clean is None else Cleaner(place.clean)
        choose = self._where if cleaner is None else partial(choose_clean, cleaner)
        ready: list[Ready] = []
        last = found[-1][1]
        mark: Mark | None = Mark(last.last_offset, last.crc)
        for batch, header in committed_part(found, fetched.aborted or ()):
            if self._is_kept(source, batch, header, place.offset):
                continue
            try:
                ready += ready_batches(source, batch, header, place.offset, choose)
            except CorruptRecordBatch:
                produced_so = unreadable(source, batch, place.offset, None)
                if produced_so is None:
                    raise
                if produced_so.offset == place.offset:
                    raise produced_so.with_way_on(_WAY_ON) from None
                end, mark = produced_so.offset, place.mark  # what is in front of it comes first
                break
        return Part(
            tuple(ready),
            end,
            mark,
            max(0, fetched.last_stable_offset - end),
            None if cleaner is None else cleaner.behind(end),
        )

    def _is_kept(self, source: TopicPartition, batch: memoryview, header: BatchHeader, offset: int) -> bool:
        """Whether the batch cannot be read, and is in the topic of those. Where there is none, nobody looks."""
        if self._letters is None or header.is_control or header.last_offset < offset:
            return False
        found = unreadable(source, batch, offset, None)
        if found is not None:
            self._put(found)
        return found is not None

    def _past_damage(self, place: Place, damage: UnreadableBatch, fetched: Fetched) -> Part | None:
        """Behind a batch that was damaged, once it was read twice: it may have been on the way."""
        if self._letters is None:
            raise damage.with_way_on(_WAY_ON) from None
        if self._damaged.get(damage.partition) != damage.offset:
            self._damaged[damage.partition] = damage.offset
            return None
        end = max(place.offset, self._put(damage))
        clean = None if place.clean is None else Cleaner(place.clean).behind(end)
        return Part((), end, place.mark, max(0, fetched.last_stable_offset - end), clean)

    def _put(self, found: UnreadableBatch) -> int:
        assert self._letters is not None
        _LOG.warning(
            "%s, offset %d: %s has the batch, for %s",
            found.partition,
            found.offset,
            self._letters.topic,
            found.why,
        )
        return self._letters.put(found)

    def _check_marks(self) -> None:
        """They ride in each record of the journal that says where all partitions stand."""
        count = sum(len(place.clean.marks) for place in self._places.values() if place.clean is not None)
        if count > MARKS_MAX:
            raise ConfigError(
                f"rows have come of {count:,} source partitions, counted for each partition that is copied, and a mark "
                f"is kept for each: a job keeps {MARKS_MAX:,}. Nothing of what was read last was copied, and nothing "
                f"is lost. Clean fewer topics with one job"
            )

    def _empty_end(self, source: TopicPartition, place: Place, fetched: Fetched) -> Part | None:
        """Offsets up to the end that have no batches any more, compacted away.

        A broker answers with one batch at least, of whichever partition, where there is one. But a tiered topic's
        answer is empty, too, where what is far away does not come in time.
        """
        if fetched.last_stable_offset <= place.offset or self._is_tiered(source.topic):
            return None
        end = fetched.last_stable_offset
        return Part((), end, place.mark, 0, None if place.clean is None else Cleaner(place.clean).behind(end))

    def _is_tiered(self, topic: str) -> bool:
        if topic not in self._tiered:
            setting = self._cluster.describe_configs([topic])[topic].get("remote.storage.enable")
            self._tiered[topic] = setting is not None and setting.value == "true"
        return self._tiered[topic]

    def _out_of_range(self, source: TopicPartition, place: Place) -> None:
        begins, end = (
            self._listed([source], which)[source] for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        if end < place.offset:
            short = f"it ends at offset {end}, and was copied up to {place.offset}"
            raise self._lost_its_end(source, short, end, place)
        if not self._plan.goes_on_after_loss:
            raise DataLoss(
                source,
                place.offset,
                begins,
                f"retention or a trim took them before job {self._plan.name!r} had copied them",
                "--on-data-loss continue goes on with what is left",
            )
        _LOG.warning("offsets %d to %d of %s are gone, and are not copied", place.offset, begins - 1, source)
        self._places[source] = replace(place, offset=begins, mark=None)

    def _prove(self, source: TopicPartition, place: Place, end: int) -> None:
        """That the source still has, in front of the place, the batch that was copied last."""
        if end < place.offset:
            short = f"it ends at offset {end}, and was copied up to {place.offset}"
            raise self._lost_its_end(source, short, end, place)
        if place.mark is None:
            return
        last = place.mark.last_offset
        ids = None if place.topic_id is None else {source.topic: UUID(place.topic_id)}
        fetched = self._cluster.fetch({source: last}, isolation="read_uncommitted", topic_ids=ids)[source]
        if fetched.error_code is not ErrorCode.NONE:
            return  # trimmed, or another topic by now: told where it is read on
        header = next((h for _, h in scan_batches(fetched.records, allow_partial_tail=True)), None)
        if header is not None and is_another(header, last, place.mark.crc):
            other = f"the batch at offset {last} is another one than was copied"
            raise self._lost_its_end(source, other, last, place)

    def _listed(
        self, sources: Iterable[TopicPartition], which: int, isolation: Isolation = "read_committed"
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(sources, which)
        found = self._cluster.list_offsets(wanted, isolation) if wanted else {}
        return {tp: each.offset for tp, each in found.items()}

    def _lost_its_end(self, source: TopicPartition, evidence: str, lost_from: int, place: Place) -> DataLoss:
        return DataLoss(
            source,
            lost_from,
            max(place.offset, lost_from + 1),
            f"{evidence}. The source has lost its end, as when a leader's data folder is put back from an older "
            f"copy, or is another cluster",
            f"What job {self._plan.name!r} has copied stays. A job of another name, to outputs of another --prefix, "
            f"copies what the source has now",
        )

    def _wait_for_source(self) -> None:
        clock = this_process().clock
        now_ms = clock.elapsed_ms()
        if self._lost_since_ms is None:
            self._lost_since_ms = now_ms
        if now_ms - self._lost_since_ms > self._plan.source.request_timeout_ms * 2:
            raise ConnectionLost(
                f"{self._plan.source.bootstrap} does not answer. What was copied stays; start the job again"
            )
        clock.pause(self._plan.linger_ms)
