"""Reading partitions in order, over asyncio: positions, fetches, and what was fetched and not yet taken.

Which partitions, and from where, is the business of whoever uses it (``aio_consumer``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from uuid import UUID

from semel.client.cluster import Cluster, Isolation
from semel.client.model import Fetched
from semel.client.records import BufferedRecords, ConsumerRecord
from semel.client.unreadable import check_progress, sound_part
from semel.core.client.visible import Visible, visible_batches
from semel.errors import BrokerError, ConfigError, CorruptRecordBatch, DataLoss, ErrorCode, UnreadableBatch
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER_EPOCH, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Start = int | Literal["earliest", "latest"]
_PAUSE_S: Final = 0.05
_SENTINELS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
_OTHER_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
_PATIENCE_S: Final = 10.0
_T = TypeVar("_T")


class PartitionReader:
    """Reads the partitions that it is given, in order.

    An offset that was deleted raises :class:`~semel.errors.DataLoss`, and a batch that cannot be read
    :class:`~semel.errors.UnreadableBatch`, once what is in front of it was given: nothing is skipped in silence.
    An offset of a topic that was deleted is lost, too, though another one has its name by now: a position is of the
    topic that was there when it was assigned.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: Isolation,
        partition_max_bytes: int,
        max_bytes: int,
        min_bytes: int,
    ) -> None:
        self.cluster = cluster
        self._isolation: Isolation = isolation
        self._partition_max_bytes, self._max_bytes, self._min_bytes = (
            partition_max_bytes,
            max_bytes,
            min_bytes,
        )
        self._positions: dict[TopicPartition, int] = {}
        # Of the positions' topics; None: the brokers have no ids.
        self._topic_ids: dict[str, UUID | None] = {}
        self._failing_since_s: dict[TopicPartition, float] = {}
        self._paused: set[TopicPartition] = set()
        self._buffered: dict[TopicPartition, BufferedRecords] = {}
        # Under these the logs had all rows in front: of the newest batch that was fetched, or of a listed end.
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._last_taken: dict[TopicPartition, int] = {}  # where the newest rows that were taken begin
        self._unsettled: set[TopicPartition] = (
            set()
        )  # rows of these were taken, and their owner may want them again

    # -- for who decides what is read -------------------------------------------------------------------

    async def _go_on(self) -> None:
        """Before each round: what has to be done first."""

    @property
    def _may_get_rows(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._positions)

    async def _idle(self, wait_s: float) -> None:
        """Nothing can be fetched now: until that may be otherwise."""
        await asyncio.sleep(wait_s)

    def _round_s(self, wait_s: float) -> float:
        """How long one round of fetches may take."""
        return wait_s

    async def _places(
        self, starts: Mapping[TopicPartition, Start]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Each start as an offset; the topics are those that there are now. And the leader epochs of those at an end:
        a log that is cut in front of one has lost rows that its reader was not to have.
        """
        await self._learn_ids({tp.topic for tp in starts})  # first: later offsets may be of a later topic
        asked = {tp: _SENTINELS[start] for tp, start in starts.items() if isinstance(start, str)}
        listed = await self.cluster.list_offsets(asked, self._isolation) if asked else {}
        places = {tp: listed[tp].offset if isinstance(start, str) else start for tp, start in starts.items()}
        return places, {tp: listed[tp].leader_epoch for tp, start in starts.items() if start == "latest"}

    def _let_go(self, tps: Iterable[TopicPartition]) -> None:
        """Read these no more, and forget where."""
        for tp in tps:
            for known in (
                self._positions,
                self._buffered,
                self._failing_since_s,
                self._leader_epochs,
                self._last_taken,
            ):
                known.pop(tp, None)
            self._paused.discard(tp)
            self._unsettled.discard(tp)
        topics = {tp.topic for tp in self._positions}
        for topic in [topic for topic in self._topic_ids if topic not in topics]:
            del self._topic_ids[topic]

    def assignment(self) -> list[TopicPartition]:
        return sorted(self._positions)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with ``offset`` next; of a topic that was made anew since, only :meth:`assign` does."""
        self.position(tp)
        self._go_to(tp, offset)

    def _go_to(self, tp: TopicPartition, offset: int) -> None:
        self._buffered.pop(tp, None)
        self._positions[tp] = offset
        self._leader_epochs.pop(tp, None)
        self._last_taken.pop(tp, None)

    def position(self, tp: TopicPartition) -> int:
        """The next offset to be read."""
        if tp not in self._positions:
            raise ConfigError(f"partition {tp} is not assigned")
        buffered = self._buffered.get(tp)
        return self._positions[tp] if buffered is None else buffered.next_offset

    def pause(self, *tps: TopicPartition) -> None:
        """Read these no further until :meth:`resume`; what was read of them already waits, too."""
        self._paused.update(tps)

    def resume(self, *tps: TopicPartition) -> None:
        self._paused.difference_update(tps)

    def unpause(self, *tps: TopicPartition) -> None:
        """The same as :meth:`resume`."""
        self.resume(*tps)

    def paused(self) -> set[TopicPartition]:
        return set(self._paused)

    async def fill(self, timeout: float) -> None:
        """Until there is something to take, or ``timeout`` seconds are over."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + timeout
        while True:
            await self._go_on()
            if not self._may_get_rows or self._has_rows:
                return
            left_s = give_up_s - loop.time()
            damage: UnreadableBatch | None = None
            for tp, fetched in (await self._fetch(max(0.0, left_s))).items():
                try:
                    self._keep(tp, fetched)
                except UnreadableBatch as error:
                    damage = error  # once the others' rows of this round are kept: they can be taken after it
            if damage is not None:
                raise damage
            if left_s <= 0:
                return

    @property
    def _has_rows(self) -> bool:
        return any(tp not in self._paused for tp in self._buffered)

    async def fetch_table(self, timeout: float = 1.0, *, include_headers: bool = False) -> pa.Table:
        """One round of fetches as a table (columns as in the Spark source); positions move behind it."""
        return self.taken(*await self.fetch_tables(timeout, include_headers=include_headers))

    def taken(self, table: pa.Table, positions: Mapping[TopicPartition, int]) -> pa.Table:
        """Move the positions behind a table that :meth:`fetch_tables` gave."""
        self._last_taken = {tp: self._positions[tp] for tp in positions if tp in self._positions}
        self._unsettled.update(self._last_taken)
        self._positions.update({tp: offset for tp, offset in positions.items() if tp in self._positions})
        return table

    async def fetch_tables(
        self, timeout: float, *, include_headers: bool
    ) -> tuple[pa.Table, dict[TopicPartition, int]]:
        """The next rows, and the positions behind them."""
        import pyarrow as pa

        from semel.record.columnar import decode_table, table_schema

        tables = [table_schema(include_headers=include_headers).empty_table()]
        positions: dict[TopicPartition, int] = {}
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + timeout
        self.done_with_last()
        self._positions.update({tp: self.position(tp) for tp in self._positions})
        self._buffered.clear()
        while True:
            await self._go_on()
            if not self._may_get_rows:
                break
            left_s = give_up_s - loop.time()
            for tp, fetched in (await self._fetch(max(0.0, left_s))).items():
                from_offset = self._positions[tp]

                def table_of(
                    visible: Visible, tp: TopicPartition = tp, from_offset: int = from_offset
                ) -> pa.Table:
                    return decode_table(
                        visible.batches,
                        topic=tp.topic,
                        partition=tp.partition,
                        from_offset=from_offset,
                        include_headers=include_headers,
                    )

                table, visible = _readable(tp, fetched, from_offset, table_of)
                positions[tp] = visible.next_offset
                self._note_epoch(tp, visible)
                tables.append(table)
            if left_s <= 0 or any(table.num_rows for table in tables):
                break
            self.taken(tables[0], positions)  # nothing to show up to here
            positions = {}  # a partition that goes and comes back begins elsewhere
        return pa.concat_tables(tables), positions

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """What is here already, up to ``max_records``. Who is interrupted here has taken nothing: :meth:`give_back`."""
        self.done_with_last()
        taken: list[ConsumerRecord] = []
        for tp in list(self._buffered):
            room = max_records - len(taken)
            if tp in self._paused or room <= 0:
                continue
            buffered = self._buffered[tp]
            self._last_taken[tp] = buffered.next_offset
            self._unsettled.add(tp)
            taken += buffered.take(room)
            if not buffered:
                del self._buffered[tp]
        return taken

    def done_with_last(self) -> None:
        """Whoever asks for more is done with what was taken last."""
        self._last_taken.clear()

    def give_back(self) -> None:
        """What was taken last has not come to whom it was for: it is read again."""
        for tp, offset in list(self._last_taken.items()):
            if tp in self._positions:
                self._go_to(tp, offset)

    async def _fetch(self, wait_s: float) -> dict[TopicPartition, Fetched]:
        wanted = {
            tp: offset
            for tp, offset in self._positions.items()
            if tp not in self._paused and tp not in self._buffered
        }
        if not wanted:
            await self._idle(wait_s)
            return {}
        fetched = await self.cluster.fetch(
            wanted,
            max_wait_ms=int(min(self._round_s(wait_s), 0.5) * 1000),
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            partition_max_bytes=self._partition_max_bytes,
            isolation=self._isolation,
            topic_ids=await self._known_ids(wanted),
            last_epochs=self._leader_epochs,
        )
        whole = {}
        for tp, item in fetched.items():
            if item.common_end is not None:
                self._check_cut(tp, item.common_end)
            elif item.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._refuse_offset(tp)
            elif item.error_code in _OTHER_TOPIC:
                await self._check_topic(tp)
            elif item.error_code is ErrorCode.NONE:
                whole[tp] = item
                self._failing_since_s.pop(tp, None)
            elif item.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._bear_with(tp, wanted[tp])
            elif item.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                self._bear_with_older_leader(tp, wanted[tp])
            elif not item.error_code.retriable:
                raise BrokerError(item.error_code, f"read {tp} from offset {wanted[tp]} on")
        if not whole:
            await asyncio.sleep(min(wait_s, _PAUSE_S))  # leadership moves: do not ask without a breath
        # Who has sought elsewhere meanwhile has no use for what lies there.
        return {tp: item for tp, item in whole.items() if self._positions.get(tp) == wanted[tp]}

    async def _learn_ids(self, topics: Iterable[str]) -> None:
        unknown = sorted(set(topics) - self._topic_ids.keys())
        found = (await self.cluster.metadata(unknown)).topics if unknown else {}
        self._topic_ids |= {name: topic.topic_id for name, topic in found.items() if not topic.error_code}

    async def _known_ids(self, tps: Iterable[TopicPartition]) -> dict[str, UUID]:
        """A topic that was not there when it was assigned is the first one that is."""
        await self._learn_ids({tp.topic for tp in tps})
        return {name: known for name, known in self._topic_ids.items() if known is not None}

    async def _check_topic(self, tp: TopicPartition) -> None:
        """Whether the name still means the topic that the position is of; a leader may be late to hear of it."""
        known = self._topic_ids.get(tp.topic)
        if known is not None and (await self.cluster.topic(tp.topic)).topic_id != known:
            position = self.position(tp)
            raise DataLoss(
                tp,
                position,
                position,
                "the topic was deleted and made anew, and these are offsets of the one before. Assign it again, from "
                '"earliest", to read the new one',
            )

    def _bear_with(self, tp: TopicPartition, offset: int) -> None:
        """A partition whose disk fails its server: another leader may take it over, but not in ever so long."""
        if self._is_failing_for_long(tp):
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"read {tp} from offset {offset} on",
                "its server cannot read it from the disk; the server's log says why, and a restart looks at it anew",
            )

    def _bear_with_older_leader(self, tp: TopicPartition, offset: int) -> None:
        """One that has not heard of its own election yet will; a cluster that was put back never does."""
        if self._is_failing_for_long(tp):
            raise BrokerError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"read {tp} from offset {offset} on",
                f"its leader knows nothing of epoch {self.cluster.leader_epochs.of(tp)}, which was known of it before: "
                "it is cut off from its cluster, or the cluster was put back from an older copy, and may hold other "
                "rows by now. Look at what it holds, and start this reader again",
            )

    def _is_failing_for_long(self, tp: TopicPartition) -> bool:
        """From its first failure on; a round that succeeds ends it."""
        now_s = asyncio.get_running_loop().time()
        since_s = self._failing_since_s.setdefault(tp, now_s)
        is_long = now_s - since_s > min(_PATIENCE_S, self.cluster.request_timeout_ms / 1000)
        if is_long:
            del self._failing_since_s[tp]
        return is_long

    def _check_cut(self, tp: TopicPartition, common_end: int) -> None:
        """How many rows it had nobody knows, and others may stand there by now."""
        if common_end >= self.position(tp):  # cut, but not in front of here
            self._leader_epochs.pop(tp, None)
            return
        raise DataLoss(
            tp,
            common_end,
            common_end,
            f"the log has lost its end since it was read up to offset {self.position(tp) - 1}, in a power cut, or to "
            "a leader that did not have all of it",
            f"Seek to {common_end} to read what stands there now: other rows",
        )

    async def _refuse_offset(self, tp: TopicPartition) -> None:
        wanted = self._positions[tp]
        start = (await self.cluster.list_offsets({tp: EARLIEST_TIMESTAMP}, self._isolation))[tp].offset
        if wanted < start:
            raise DataLoss(tp, wanted, start, f"seek to {start} to go on with what is left")
        end = (await self.cluster.list_offsets({tp: LATEST_TIMESTAMP}, self._isolation))[tp].offset
        if wanted <= end:
            await self._refuse_epoch(tp)
            return
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"read {tp} at offset {wanted}",
            f"it lies behind the end, which is {end}",
        )

    async def _refuse_epoch(self, tp: TopicPartition) -> None:
        """A leader that does not know the epoch of the row in front: one of before may be late to hear of its end."""
        await self.cluster.metadata([tp.topic])
        if self._is_failing_for_long(tp):
            position = self.position(tp)
            raise DataLoss(
                tp,
                position,
                position,
                f"the log knows nothing of leader epoch {self._leader_epochs.get(tp, NO_LEADER_EPOCH)}, in which the "
                "row in front was written: it has lost its end, or was put back from an older copy, and may hold other "
                "rows by now, also in front of that",
                "Seek to where the rows that you have end in it",
            )

    def _note_epoch(self, tp: TopicPartition, visible: Visible) -> None:
        """Where nothing came, the row in front is the one of before."""
        if visible.leader_epoch != NO_LEADER_EPOCH:
            self._leader_epochs[tp] = visible.leader_epoch

    def _keep(self, tp: TopicPartition, fetched: Fetched) -> None:
        from_offset = self._positions[tp]
        buffered, visible = _readable(
            tp, fetched, from_offset, lambda visible: BufferedRecords(tp, visible.batches, from_offset)
        )
        self._positions[tp] = visible.next_offset  # only once the batches proved to be whole
        self._note_epoch(tp, visible)
        if buffered:
            self._buffered[tp] = buffered


def _readable(
    tp: TopicPartition, fetched: Fetched, from_offset: int, decode: Callable[[Visible], _T]
) -> tuple[_T, Visible]:
    """What ``decode`` makes of an answer, and what of it was looked at: up to a batch that cannot be read.

    :class:`~semel.errors.UnreadableBatch` only when nothing is in front of it, which the next round comes to.
    """
    try:
        visible = visible_batches(fetched.records, from_offset, fetched.aborted)
        if visible.next_offset == from_offset:
            check_progress(fetched.records)
        return decode(visible), visible
    except CorruptRecordBatch as error:
        sound, where = sound_part(tp, fetched.records, from_offset, error, fetched.aborted)
        visible = visible_batches(sound, from_offset, fetched.aborted)
        if visible.next_offset == from_offset:
            raise where from None
        return decode(visible), visible
