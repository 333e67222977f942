"""What a consumer commits for its group: on demand, and, with auto-commit, as it polls on.

Invariant ``handed_out_before``: auto-commit never commits a row of the present poll; whoever polls again says that it
is done with what it was given before (Kafka's ``ConsumerCoordinator.maybeAutoCommitOffsetsAsync``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from semel.client.cluster import Cluster
from semel.client.group_engine import GroupEngine
from semel.client.groups import Membership as As
from semel.client.groups import Offset, Offsets
from semel.client.runtime import monotonic_ms
from semel.core.client.transaction_events import TransactionOffsets
from semel.core.consumer.events import CommitRefused
from semel.errors import BrokerError, ErrorCode, NotCommitted, SemelError
from semel.types import TopicPartition

_AGAIN_MS: Final = 500
_WHY: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: "this consumer was taken for dead, and its partitions are others' by now",
    ErrorCode.ILLEGAL_GENERATION: "the group has divided its partitions anew without this consumer",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is dividing its partitions anew",
}
_ADVICE: Final = (
    "Nothing was committed: rows since the last commit may be read again. Poll again, so that this consumer takes "
    "part; if it polls too seldom, raise max_poll_interval_ms, or take fewer rows with max_poll_records"
)


class GroupOffsets:
    """The commits of one consumer; ``group`` is its ``group_id``, and ``settled`` hears of each that is taken."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        interval_ms: int,
        settled: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self.group = group
        self._settled = settled
        self._cluster = cluster
        self._interval_ms = interval_ms
        self._known: dict[TopicPartition, int] = {}  # what is committed, as far as this consumer knows
        self._due_ms = monotonic_ms() + interval_ms
        self._failure: BrokerError | None = None
        self._committing: asyncio.Task[None] | None = None
        self._in_transaction: Mapping[
            TopicPartition, int
        ] = {}  # the positions, which are known once it counts
        self._gone: set[TopicPartition] = set()  # to others, with rows that were handed out and not committed

    def remember(self, committed: Mapping[TopicPartition, int | str]) -> None:
        """What was found to be committed needs not be committed again."""
        self._known.update({tp: at for tp, at in committed.items() if isinstance(at, int)})

    def gone(self, tps: Iterable[TopicPartition]) -> None:
        """Of these rows were handed out and not committed, and this consumer has them no more."""
        self._gone.update(tps)

    def rewound(self) -> None:
        """All that was handed out and not committed is handed out again, by whomever."""
        self._gone.clear()

    def forget(self, tps: Iterable[TopicPartition]) -> None:
        """Others commit of these from now on."""
        for tp in tps:
            self._known.pop(tp, None)

    async def commit(self, offsets: Offsets, engine: GroupEngine | None) -> None:
        """As the member that the consumer is, if it is one; a refusal says whether it still is."""
        if not offsets:
            return
        await self._idle()
        await self._commit(offsets, engine)

    def for_transaction(
        self, positions: Mapping[TopicPartition, Offset], engine: GroupEngine | None
    ) -> TransactionOffsets:
        """What is not committed yet, for a producer's transaction to commit as this member (KIP-447)."""
        if self._gone:
            raise NotCommitted(
                f"{_what(dict.fromkeys(self._gone, 0), self.group)}: this consumer has them no more, and rows that it "
                f"handed out are not committed: whoever has them now reads those again. Nothing was committed"
            )
        news = self._news(positions)
        member = As() if engine is None else engine.speaks_as
        if news and engine is not None and member.generation_id < 0:
            raise NotCommitted(
                f"{_what(positions, self.group)}: this consumer is no member at the moment. {_ADVICE}"
            )
        self._in_transaction = {tp: at.offset for tp, at in positions.items()}
        return TransactionOffsets(
            self.group,
            {tp: (at.offset, at.metadata, at.leader_epoch) for tp, at in news.items()},
            member.member_id,
            member.generation_id,
            member.group_instance_id,
        )

    def committed_in_transaction(self) -> None:
        """The transaction counts, and with it the positions."""
        committed, self._in_transaction = self._in_transaction, {}
        self._note(committed)

    async def commit_news(
        self, positions: Mapping[TopicPartition, Offset], engine: GroupEngine | None
    ) -> None:
        """Commit what is not committed yet."""
        await self._idle()
        news = self._news(positions)
        if news:
            await self._commit(news, engine)

    def commit_if_due(
        self, positions: Callable[[], Mapping[TopicPartition, Offset]], engine: GroupEngine | None
    ) -> None:
        """Commit beside what goes on, once an interval; what fails is tried again soon.

        What no repetition would change is raised by the next call: nobody else would tell.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        now_ms = monotonic_ms()
        if now_ms < self._due_ms or self._committing is not None:
            return
        self._due_ms = now_ms + self._interval_ms
        news = self._news(positions())
        if news:
            self._committing = asyncio.get_running_loop().create_task(self._commit_beside(news, engine))

    async def _commit_beside(self, news: Mapping[TopicPartition, Offset], engine: GroupEngine | None) -> None:
        try:
            await self._commit(news, engine)
        except SemelError as error:
            if isinstance(error, BrokerError) and not error.code.retriable:
                self._failure = error
            self._due_ms = min(self._due_ms, monotonic_ms() + _AGAIN_MS)
        finally:
            self._committing = None

    async def _idle(self) -> None:
        """An earlier commit that is under way comes first: it must not overtake a later one."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    def _news(self, positions: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        return {tp: at for tp, at in positions.items() if self._known.get(tp) != at.offset}

    async def _commit(self, offsets: Offsets, engine: GroupEngine | None) -> None:
        member = As() if engine is None else engine.speaks_as
        if engine is not None and member.generation_id < 0:
            raise NotCommitted(
                f"{_what(offsets, self.group)}: this consumer is no member at the moment. {_ADVICE}"
            )
        try:
            await self._cluster.commit_offsets(self.group, offsets, member)
        except BrokerError as error:
            if engine is None:
                raise
            engine.handle(CommitRefused(member.generation_id, error.code))
            if error.code is ErrorCode.FENCED_INSTANCE_ID:
                engine.check()  # which says it better
            if error.code not in _WHY:
                raise
            raise NotCommitted(
                f"{_what(offsets, self.group)}: {_WHY[error.code]} ({error.code.name}). {_ADVICE}", error.code
            ) from None
        self._note({tp: at if isinstance(at, int) else at[0] for tp, at in offsets.items()})

    def _note(self, committed: Mapping[TopicPartition, int]) -> None:
        self._known.update(committed)
        self._settled(committed)


def _what(offsets: Offsets, group: str) -> str:
    names = ", ".join(map(str, sorted(offsets)[:3])) + ", …" * (len(offsets) > 3)
    return f"commit of {names} for group {group!r}"
