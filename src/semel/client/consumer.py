"""The blocking consumer: of partitions that it is given, or as a member of a group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self, Unpack

from semel.client.aio_consumer import AsyncConsumer, ConsumerChoices, ConsumerRecord, Listener, Start
from semel.client.background import shared_loop
from semel.client.calls_here import CallsHere
from semel.client.groups import Offsets
from semel.client.settings import names_checked
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Consumer", "ConsumerRecord"]


class _Inner(AsyncConsumer):
    """Calls its user's listeners on the user's thread."""

    calls_here: CallsHere

    async def _call(self, listener: Listener, tps: list[TopicPartition]) -> None:
        await self.calls_here.call(listener, tps)


class Consumer:
    """:class:`~semel.client.aio_consumer.AsyncConsumer` for blocking code; one thread at a time.

    Heartbeats go on in the background while its thread works; listeners are called on that thread, inside of
    :meth:`poll`.
    """

    @names_checked(ConsumerChoices.__optional_keys__)
    def __init__(self, bootstrap: str | list[str], **settings: Unpack[ConsumerChoices]) -> None:
        self.inner = _Inner(bootstrap, **settings)
        self._background = shared_loop()
        self._here = self.inner.calls_here = CallsHere(self._background)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(has_failed=kind is not None)

    def close(self, *, has_failed: bool = False) -> None:
        """Commit, with auto-commit, what was handed out; let go of the partitions, and leave the group.

        ``has_failed``: what the newest poll handed out is not done, and is not committed. So it is when an error
        leaves a ``with`` block.
        """
        if not self._closed:
            self._closed = True
            self._here.run(self.inner.close(has_failed=has_failed))

    def assign(self, starts: Mapping[TopicPartition, Start] | Iterable[TopicPartition]) -> None:
        """Read these partitions, each from an offset, "earliest" or "latest".

        Without a start: where the group has come to, if there is a ``group_id``; else from "earliest".
        """
        self._here.run(self.inner.assign(starts))

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read topics as a member of the group ``group_id``; see :meth:`AsyncConsumer.subscribe`."""
        self._here.run(
            self.inner.subscribe(topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        )

    def unsubscribe(self) -> None:
        """Commit, with auto-commit, let go of everything, and leave the group."""
        self._here.run(self.inner.unsubscribe())

    def subscription(self) -> set[str]:
        """The topics subscribed to; of a pattern those that were found."""
        return self.inner.subscription()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that it reads now; of a group those that its last poll found to be its own."""
        return self.inner.assignment()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with ``offset`` next."""
        self.inner.seek(tp, offset)

    def seek_to_beginning(self, *tps: TopicPartition) -> None:
        """Go on with the first offset that there is; of all assigned partitions, if none is named."""
        self._here.run(self.inner.seek_to_beginning(*tps))

    def seek_to_end(self, *tps: TopicPartition) -> None:
        """Go on behind what there is now."""
        self._here.run(self.inner.seek_to_end(*tps))

    def end_offsets(self, tps: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Where the assigned partitions, or ``tps``, end now, for who reads at this consumer's isolation."""
        return self._here.run(self.inner.end_offsets(tps))

    def position(self, tp: TopicPartition) -> int:
        """The next offset to be handed out."""
        return self.inner.position(tp)

    def pause(self, *tps: TopicPartition) -> None:
        """Read these no further until :meth:`resume`; what was read of them already waits, too."""
        self.inner.pause(*tps)

    def resume(self, *tps: TopicPartition) -> None:
        self.inner.resume(*tps)

    def unpause(self, *tps: TopicPartition) -> None:
        """The same as :meth:`resume`."""
        self.inner.resume(*tps)

    def paused(self) -> set[TopicPartition]:
        return self.inner.paused()

    def poll(
        self, timeout: float = 1.0, max_records: int | None = None, *, timeout_ms: int | None = None
    ) -> list[ConsumerRecord]:
        """Up to ``max_records`` records; an empty list when none came within ``timeout`` seconds."""
        self.inner.done_with_last()
        self._here.run(self.inner.fill(timeout if timeout_ms is None else timeout_ms / 1000))
        try:
            return self.inner.take(
                self.inner.settings.max_poll_records if max_records is None else max_records
            )
        except BaseException:  # Ctrl-C: what does not come to the caller is read again
            self.inner.give_back()
            raise

    def __iter__(self) -> Self:
        """Records one by one, for as long as the consumer is open. Each next one says that the one before is done."""
        return self

    def __next__(self) -> ConsumerRecord:
        while not self._closed:
            self.inner.done_with_last()
            if self.inner.is_due:
                self._here.run(self.inner.fill(1.0))
            try:
                if taken := self.inner.take(1):
                    return taken[0]
            except BaseException:
                self.inner.give_back()
                raise
        raise StopIteration

    def fetch_table(self, timeout: float = 1.0, *, include_headers: bool = False) -> pa.Table:
        """One round of fetches as a table (columns as in the Spark source); positions move behind it."""
        found = self._here.run(self.inner.fetch_tables(timeout, include_headers=include_headers))
        try:
            return self.inner.taken(*found)
        except BaseException:
            self.inner.give_back()
            raise

    def commit(self, offsets: Offsets | str | None = None, *, group: str | None = None) -> None:
        """Commit the positions: of every assigned partition, the next offset to be handed out.

        ``offsets``: other ones instead, each the next to be read, alone or as ``(offset, metadata)``. ``group`` (also
        as the first argument): for that group, as nobody's member; without it for ``group_id``.
        :class:`~semel.errors.NotCommitted`: nothing of it was.
        """
        self._here.run(self.inner.commit(offsets, group=group))

    def rewind(self) -> None:
        """Go back to what the group has committed: rows handed out since then are handed out again.

        As for one that is started anew; a partition of which nothing is committed begins where it began. What the
        coordinator cannot say now, the next poll asks.
        """
        self._here.run(self.inner.rewind())

    def committed(
        self, tps: Iterable[TopicPartition] | str | None = None, *, group: str | None = None
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets of the assigned partitions, or of ``tps`` (without those that have none)."""
        if isinstance(tps, str):
            tps, group = None, tps
        return self._here.run(self.inner.committed(tps, group=group))
