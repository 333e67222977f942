"""The consumer, over asyncio: of partitions that it is given, or as a member of a group that shares them out."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Self, Unpack, overload

from semel.client.cluster import Cluster
from semel.client.consumer_settings import ConsumerChoices, ConsumerSettings
from semel.client.group_engine import GroupEngine
from semel.client.group_offsets import GroupOffsets
from semel.client.groups import Offset, Offsets
from semel.client.partition_reader import PartitionReader, Start
from semel.client.records import ConsumerRecord
from semel.client.runtime import monotonic_ms
from semel.client.settings import names_checked
from semel.core.client.transaction_events import TransactionOffsets
from semel.core.consumer.events import CommitRefused, HandedOver, Handover
from semel.core.consumer.places import Stable
from semel.errors import ConfigError, ErrorCode, NoCommittedOffset, SemelError
from semel.types import LATEST_TIMESTAMP, NO_LEADER_EPOCH, TopicPartition

__all__ = ["AsyncConsumer", "ConsumerChoices", "ConsumerRecord", "Start"]

Listener = Callable[[list[TopicPartition]], Any]
_STARTS: Final = ("earliest", "latest")
_HANDOVER_S: Final = 5.0  # for a commit while the others wait to be given what this one has
_ROUND_S: Final = (
    0.1  # between two looks at the group while rows are handed out one by one, or it divides anew
)


class AsyncConsumer(PartitionReader):
    """Reads records in the order of each partition, committed ones only unless told otherwise.

    Either of partitions that it is given (:meth:`assign`), or, with ``group_id``, as a member of a group
    (:meth:`subscribe`), whose members share the partitions out among themselves. Rows come only out of :meth:`poll` and
    of iteration, and only there a member lets go of partitions: what it was given it may work on until it polls again.

    An offset that was deleted raises :class:`~semel.errors.DataLoss`, and a batch that is damaged
    :class:`~semel.errors.UnreadableBatch`, once what is in front of it was given: nothing is skipped in silence.
    An offset of a topic that was deleted is lost, too, though another one has its name by now: a position is of the
    topic that was there when it was assigned.
    """

    @names_checked(ConsumerChoices.__optional_keys__)
    def __init__(self, bootstrap: str | list[str], **settings: Unpack[ConsumerChoices]) -> None:
        chosen = self.settings = ConsumerSettings.of(settings)
        self._bootstrap = bootstrap
        super().__init__(
            self._connect(),
            isolation=chosen.isolation_level or chosen.isolation,
            partition_max_bytes=chosen.partition_max_bytes,
            max_bytes=chosen.max_bytes,
            min_bytes=chosen.min_bytes,
        )
        self._engine: GroupEngine | None = None  # while something is subscribed to
        self._line: Cluster | None = None
        self._listeners: tuple[Listener | None, Listener | None, Listener | None] = (None, None, None)
        self._unplaced: set[TopicPartition] = set()  # it has them, and does not know where to begin
        self._settled_at: dict[TopicPartition, int] = {}  # its owner is done with what lies in front of it
        self._offsets: GroupOffsets | None = None
        if chosen.group_id is not None:
            self._offsets = GroupOffsets(
                self.cluster, chosen.group_id, chosen.auto_commit_interval_ms, self._settle
            )
        self._looked_ms = 0
        self._is_closed = False

    def _connect(self) -> Cluster:
        return Cluster(
            self._bootstrap,
            client_id=self.settings.client_id,
            request_timeout_ms=self.settings.request_timeout_ms,
            security_protocol=self.settings.security_protocol,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(has_failed=kind is not None)

    async def close(self, *, has_failed: bool = False) -> None:
        """Commit, with auto-commit, what was handed out; let go of the partitions, and leave the group.

        ``has_failed``: what the newest poll handed out is not done, and is not committed. So it is when an error
        leaves a ``with`` block.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._offsets is not None and self._positions:
                await self._commit_at_the_end(self._done_positions() if has_failed else self._all_positions())
            if self._engine is not None:
                await self._leave("the consumer was closed")
        finally:
            if self._engine is not None:
                await self._engine.close()
            if self._line is not None:
                await self._line.close()
            await self.cluster.close()

    # -- which partitions -------------------------------------------------------------------------------

    async def assign(self, starts: Mapping[TopicPartition, Start] | Iterable[TopicPartition]) -> None:
        """Read these partitions, each from an offset, "earliest" or "latest".

        Without a start: where the group has come to, if there is a ``group_id``; else from "earliest".
        """
        if self._engine is not None:
            raise ConfigError(
                "this consumer has subscribed to topics: unsubscribe() before it assigns partitions"
            )
        wanted: dict[TopicPartition, Start] = {}
        unplaced: set[TopicPartition] = set()
        for tp in starts:
            key = TopicPartition(*tp)
            if isinstance(starts, Mapping):
                wanted[key] = starts[tp]
            elif self._offsets is not None:
                unplaced.add(key)
            else:
                wanted[key] = "earliest"
        for tp, start in wanted.items():
            if not isinstance(start, int) and start not in _STARTS:
                raise ConfigError(
                    f"{start!r} is no place to start {tp} at: an offset, 'earliest' or 'latest'"
                )
        self._topic_ids.clear()
        positions, leader_epochs = await self._places(wanted)
        self._forget(self.assignment())
        if self._offsets is not None:
            self._offsets.forget(wanted)
        self._positions, self._unplaced = positions, unplaced
        self._leader_epochs |= leader_epochs
        self._settled_at = dict(positions)
        await self._place()

    async def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read topics as a member of the group ``group_id``, from the next poll on.

        A compiled pattern, or a string that begins with ``^``, stands for every topic in whose name it is found
        (``re.search``), also for those that come later; internal topics have to be named. Where nobody answers what
        topics there are, :class:`~semel.errors.ConnectionLost` is raised; the pattern is subscribed to all the same,
        and looked for again.

        The listeners are called inside of :meth:`poll` with a list of partitions, and awaited if they give something to
        await: ``on_assigned`` with those that came (seek there to begin elsewhere); ``on_revoked`` with those that go
        to others, while they may still be committed; ``on_lost`` (without it ``on_revoked``) with those that others may
        read already, for the membership was lost.
        """
        wanted = topics_of(topics)
        if self._offsets is None or self.settings.group_id is None:
            raise ConfigError("subscribe() reads as a member of a group: give the consumer a group_id")
        if self._engine is None and (self._positions or self._unplaced):
            raise ConfigError("this consumer has assigned partitions itself: assign([]) before it subscribes")
        self._listeners = (on_assigned, on_revoked, on_lost)
        if self._engine is None:
            self._line = self._line or self._connect()
            self._engine = GroupEngine(
                self.cluster,
                self._line,
                self.settings.group_id,
                self.settings.strategies,
                self.settings.membership(),
                metadata_max_age_ms=self.settings.metadata_max_age_ms,
            )
        await self._engine.subscribe(wanted)

    async def unsubscribe(self) -> None:
        """Commit, with auto-commit, let go of everything, and leave the group."""
        if self._engine is None:
            await self.assign([])
            return
        await self._commit_at_the_end(self._all_positions())
        await self._leave("the consumer unsubscribed")
        await self._engine.close()
        self._engine = None

    def subscription(self) -> set[str]:
        """The topics subscribed to; of a pattern those that were found."""
        return set() if self._engine is None else set(self._engine.topics)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that it reads now; of a group those that its last poll found to be its own."""
        return sorted(self._positions.keys() | self._unplaced)

    # -- where ------------------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with ``offset`` next; of a topic that was made anew since, only :meth:`assign` does.

        When a transaction that commits the positions is aborted, rows that had been handed out before are handed out
        again all the same.
        """
        if tp in self._unplaced:
            self._unplaced.discard(tp)
            self._positions[tp] = offset
        super().seek(tp, offset)
        if tp not in self._unsettled:
            self._settled_at[tp] = offset

    async def seek_to_beginning(self, *tps: TopicPartition) -> None:
        """Go on with the first offset that there is; of all assigned partitions, if none is named."""
        await self._seek_to("earliest", tps)

    async def seek_to_end(self, *tps: TopicPartition) -> None:
        """Go on behind what there is now."""
        await self._seek_to("latest", tps)

    async def _seek_to(self, start: Start, tps: Iterable[TopicPartition]) -> None:
        wanted = list(tps) or self.assignment()
        for tp in wanted:
            if tp not in self._unplaced:
                self.position(tp)
        places, leader_epochs = await self._places(dict.fromkeys(wanted, start))
        for tp, offset in places.items():
            self.seek(tp, offset)
        self._leader_epochs |= leader_epochs

    async def end_offsets(self, tps: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Where the assigned partitions, or ``tps``, end now, for who reads at this consumer's isolation."""
        wanted = self.assignment() if tps is None else [TopicPartition(*tp) for tp in tps]
        listed = await self.cluster.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP), self._isolation)
        return {tp: at.offset for tp, at in listed.items()}

    def position(self, tp: TopicPartition) -> int:
        """The next offset to be handed out."""
        if tp in self._unplaced:
            raise ConfigError(
                f"where to begin in {tp} is not known yet: the next poll finds out, or says why not"
            )
        return super().position(tp)

    # -- rows -------------------------------------------------------------------------------------------

    async def poll(
        self, timeout: float = 1.0, max_records: int | None = None, *, timeout_ms: int | None = None
    ) -> list[ConsumerRecord]:
        """Up to ``max_records`` records; an empty list when none came within ``timeout`` seconds."""
        self.done_with_last()
        await self.fill(timeout if timeout_ms is None else timeout_ms / 1000)
        return self.take(self.settings.max_poll_records if max_records is None else max_records)

    def __aiter__(self) -> Self:
        """Records one by one, for as long as the consumer is open. Each next one says that the one before is done."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._is_closed:
            self.done_with_last()
            if self.is_due:
                await self.fill(1.0)
            if taken := self.take(1):
                return taken[0]
        raise StopAsyncIteration

    @property
    def is_due(self) -> bool:
        """Whether it is time to look for rows, or at the group, before the next row is handed out."""
        if not self._has_rows:
            return True
        return self._offsets is not None and monotonic_ms() - self._looked_ms >= _ROUND_S * 1000

    # -- committing -------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | str | None = None, *, group: str | None = None) -> None:
        """Commit the positions: of every assigned partition, the next offset to be handed out.

        ``offsets``: other ones instead, each the next to be read, alone or as ``(offset, metadata)``. ``group`` (also
        as the first argument): for that group, as nobody's member; without it for ``group_id``.
        :class:`~semel.errors.NotCommitted`: nothing of it was.
        """
        if isinstance(offsets, str):
            offsets, group = None, offsets
        for tp in {tp.topic: tp for tp in self._positions}.values():
            await self._check_topic(tp)
        wanted: Offsets = (
            self._all_positions()
            if offsets is None
            else {TopicPartition(*tp): at for tp, at in offsets.items()}
        )
        if group is not None:
            await self.cluster.commit_offsets(group, wanted)
            return
        await self._in_group("commit()").commit(wanted, self._engine)

    @overload
    async def committed(self, group: str, /) -> dict[TopicPartition, int]: ...
    @overload
    async def committed(
        self, tps: Iterable[TopicPartition] | None = None, *, group: str | None = None
    ) -> dict[TopicPartition, int]: ...
    async def committed(
        self, tps: Iterable[TopicPartition] | str | None = None, *, group: str | None = None
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets of the assigned partitions, or of ``tps`` (without those that have none)."""
        if isinstance(tps, str):
            tps, group = None, tps
        wanted = self.assignment() if tps is None else [TopicPartition(*tp) for tp in tps]
        name = self._in_group("committed()").group if group is None else group
        found = await self.cluster.committed_offsets(name, wanted)
        return {tp: item.offset for tp, item in found.items() if item.offset >= 0}

    # -- in a producer's transactions -------------------------------------------------------------------

    async def rewind(self) -> None:
        """Go back to what the group has committed: rows handed out since then are handed out again.

        As for one that is started anew; a partition of which nothing is committed begins where it began. What the
        coordinator cannot say now, the next poll asks.
        """
        offsets = self._in_group("rewind()")
        tps = self.assignment()
        offsets.forget(tps)
        offsets.rewound()
        for tp in tps:
            for known in (self._positions, self._buffered, self._leader_epochs, self._last_taken):
                known.pop(tp, None)
        self._unsettled.clear()
        self._unplaced.update(tps)
        try:
            await self._place()
        except SemelError:
            pass

    async def put_back(self, *, is_in_doubt: bool) -> None:
        """A transaction with the positions did not come to count: hand out again what was handed out since they were
        committed, or sought, before it. In doubt: it may count, which the group's coordinator knows.
        """
        if is_in_doubt:
            await self.rewind()
            return
        self._in_group("a transaction").rewound()
        self._unsettled.clear()
        for tp in self._positions:
            self._go_to(tp, self._settled_at[tp])

    def check_commits_in_transactions(self) -> None:
        """Refuse a consumer whose positions are committed otherwise, too: what an abort undoes would stay there."""
        self._in_group("a transaction that commits this consumer's positions")
        if self.settings.enable_auto_commit:
            raise ConfigError(
                "this consumer commits its positions by itself, also those of rows whose transaction is aborted later: "
                "give it enable_auto_commit=False"
            )

    async def offsets_for_transaction(self) -> TransactionOffsets:
        """Its positions, as far as they are not committed, and as whom it commits."""
        offsets = self._in_group("commit_offsets()")
        for tp in {tp.topic: tp for tp in self._positions}.values():
            await self._check_topic(tp)
        return offsets.for_transaction(self._all_positions(), self._engine)

    def offsets_were_committed(self) -> None:
        """The transaction with the positions counts."""
        if self._offsets is not None:
            self._offsets.committed_in_transaction()

    def offsets_were_refused(self, wanted: TransactionOffsets, code: ErrorCode) -> None:
        """The group's coordinator does not take this member's positions: the next poll joins anew."""
        if self._engine is not None:
            self._engine.handle(CommitRefused(wanted.generation_id, code))

    def _in_group(self, what: str) -> GroupOffsets:
        if self._offsets is None:
            raise ConfigError(f"{what} needs a group: give the consumer a group_id, or name one")
        return self._offsets

    def _settle(self, committed: Mapping[TopicPartition, int]) -> None:
        """Who had the rows in front of these is done with them."""
        for tp, offset in committed.items():
            if tp not in self._positions:
                continue
            self._settled_at[tp] = offset
            if offset == self.position(tp):
                self._unsettled.discard(tp)
                self._last_taken.pop(tp, None)
            elif offset > self._last_taken.get(tp, offset):
                self._last_taken[tp] = offset

    def _all_positions(self) -> dict[TopicPartition, Offset]:
        return {tp: self._in_epoch(tp, self.position(tp)) for tp in self._positions}

    def _in_epoch(self, tp: TopicPartition, offset: int) -> Offset:
        """With the leader epoch of the newest row that was fetched: then the log had all rows in front, too."""
        return Offset(offset, leader_epoch=self._leader_epochs.get(tp, NO_LEADER_EPOCH))

    def _done_positions(self) -> dict[TopicPartition, Offset]:
        """Without what was handed out last: whoever got it may be in the midst of it."""
        return self._all_positions() | {
            tp: self._in_epoch(tp, offset) for tp, offset in self._last_taken.items()
        }

    async def _commit_at_the_end(
        self, positions: Mapping[TopicPartition, Offset], timeout_s: float | None = None
    ) -> None:
        """What cannot be committed is read again, by whoever comes next: no reason not to let go."""
        if self._offsets is None or not self.settings.enable_auto_commit:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._offsets.commit_news(positions, self._engine)
        except (SemelError, TimeoutError):
            pass

    # -- the group --------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        """One look at the group, before rows are fetched: hand over, commit, find out where to begin."""
        self._looked_ms = monotonic_ms()
        if self._engine is not None:
            while (handover := self._engine.polled()) is not None:
                await self._hand_over(handover)
                self._engine.handle(HandedOver(handover))
            self._engine.check()
        if self._offsets is not None and self.settings.enable_auto_commit:
            self._offsets.commit_if_due(self._all_positions, self._engine)
        if self._unplaced:
            await self._place()

    async def _hand_over(self, handover: Handover) -> None:
        on_assigned, on_revoked, on_lost = self._listeners
        owned = set(self.assignment())  # what has gone already, before a listener failed, is not told again
        if revoked := handover.revoked & owned:
            positions = self._all_positions()
            await self._commit_at_the_end(
                {tp: at for tp, at in positions.items() if tp in revoked}, _HANDOVER_S
            )
            await self._tell(on_revoked, revoked)
        if lost := handover.lost & owned:
            await self._tell(on_lost or on_revoked, lost)
        self._forget(handover.revoked | handover.lost)
        if handover.added:
            self._unplaced |= handover.added - self._positions.keys()
            try:
                await self._place()
            except SemelError:
                pass  # the listener may know where to begin; else the poll says what is wrong
            await self._tell(on_assigned, handover.added)

    def _forget(self, tps: Collection[TopicPartition]) -> None:
        if self._offsets is not None:
            self._offsets.gone(self._unsettled.intersection(tps))
            self._offsets.forget(tps)
        self._let_go(tps)
        self._unplaced.difference_update(tps)
        for tp in tps:
            self._settled_at.pop(tp, None)

    async def _tell(self, listener: Listener | None, tps: Iterable[TopicPartition]) -> None:
        if listener is not None:
            await self._call(listener, sorted(tps))

    async def _call(self, listener: Listener, tps: list[TopicPartition]) -> None:
        """Call what the user has given us; blocking code has it called on its own thread."""
        answer = listener(tps)
        if inspect.isawaitable(answer):
            await answer

    async def _leave(self, reason: str) -> None:
        assert self._engine is not None
        owned = self._engine.machine.owned
        try:
            if owned:
                await self._tell(self._listeners[1], owned)
        finally:
            self._forget(self.assignment())
            await self._engine.leave(reason)

    @property
    def _may_get_rows(self) -> bool:
        return bool(self._positions) or self._engine is not None

    async def _idle(self, wait_s: float) -> None:
        if self._engine is None:
            await asyncio.sleep(wait_s)
        else:
            await self._engine.changed(wait_s)

    def _round_s(self, wait_s: float) -> float:
        """While the group divides its partitions anew, look at it often: the others wait."""
        if self._engine is not None and not isinstance(self._engine.machine.place, Stable):
            return min(wait_s, _ROUND_S)
        return wait_s

    async def _place(self) -> None:
        """Where to begin in partitions that came: where the group has come to, else as ``auto_offset_reset`` says."""
        wanted = sorted(self._unplaced)
        if not wanted or self._offsets is None:
            return
        await self._learn_ids({tp.topic for tp in wanted})
        found = await self.cluster.committed_offsets(self._offsets.group, wanted)
        places: dict[TopicPartition, Start] = {tp: at.offset for tp, at in found.items() if at.offset >= 0}
        self._offsets.remember(places)
        places |= {tp: self._settled_at[tp] for tp in wanted if tp not in places and tp in self._settled_at}
        missing = [tp for tp in wanted if tp not in places]
        reset = self.settings.auto_offset_reset
        if reset == "earliest" or reset == "latest":
            places |= dict.fromkeys(missing, reset)
        positions, leader_epochs = await self._places(places)
        for tp, offset in positions.items():
            self._unplaced.discard(tp)
            self._positions[tp] = offset
            self._settled_at[tp] = offset
        # A log that was cut behind what the group has read says so.
        self._leader_epochs |= {tp: at.leader_epoch for tp, at in found.items()} | leader_epochs
        if self._unplaced:
            raise NoCommittedOffset(self._offsets.group, tuple(sorted(self._unplaced)))


def topics_of(topics: str | Iterable[str] | re.Pattern[str]) -> list[str] | re.Pattern[str]:
    """What a caller subscribes to, as names or as a pattern."""
    if isinstance(topics, re.Pattern):
        return topics
    if isinstance(topics, str):
        if not topics.startswith("^"):
            return [topics]
        try:
            return re.compile(topics)
        except re.error as error:
            raise ConfigError(f"{topics!r} is no pattern: {error}") from None
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{name!r} is no name of a topic")
        if name.startswith("^"):
            raise ConfigError(f"{name!r}: a pattern is subscribed to alone, not in a list")
    if not names:
        raise ConfigError("no topic to subscribe to; unsubscribe() leaves the group")
    return names
