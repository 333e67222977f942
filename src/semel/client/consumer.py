"""The blocking consumer of assigned partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self, Unpack

from semel.client.aio_consumer import AsyncConsumer, ConsumerChoices, ConsumerRecord, Start
from semel.client.background import shared_loop
from semel.client.settings import names_checked
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Consumer", "ConsumerRecord"]


class Consumer:
    """:class:`~semel.client.aio_consumer.AsyncConsumer` for blocking code; one thread at a time."""

    @names_checked(ConsumerChoices.__optional_keys__)
    def __init__(self, bootstrap: str | list[str], **settings: Unpack[ConsumerChoices]) -> None:
        self.inner = AsyncConsumer(bootstrap, **settings)
        self._background = shared_loop()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._background.run(self.inner.close())

    def assign(self, starts: Mapping[TopicPartition, Start] | Iterable[TopicPartition]) -> None:
        """Read these partitions, each from an offset, "earliest" (the default) or "latest"."""
        self._background.run(self.inner.assign(starts))

    def assignment(self) -> list[TopicPartition]:
        return self.inner.assignment()

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with ``offset`` next."""
        self.inner.seek(tp, offset)

    def position(self, tp: TopicPartition) -> int:
        """The next offset to be read."""
        return self.inner.position(tp)

    def pause(self, *tps: TopicPartition) -> None:
        self.inner.pause(*tps)

    def unpause(self, *tps: TopicPartition) -> None:
        self.inner.unpause(*tps)

    def poll(self, timeout: float = 1.0, max_records: int = 500) -> list[ConsumerRecord]:
        """Up to ``max_records`` records; an empty list when none came within ``timeout`` seconds."""
        self._background.run(self.inner.fill(timeout))
        return self.inner.take(max_records)  # here, so that Ctrl-C cannot lose what was taken

    def fetch_table(self, timeout: float = 1.0, *, include_headers: bool = False) -> pa.Table:
        """One round of fetches as a table (columns as in the Spark source); positions move behind it."""
        found = self._background.run(self.inner.fetch_tables(timeout, include_headers=include_headers))
        return self.inner.taken(*found)

    def commit(self, group: str) -> None:
        """Commit the positions: of every assigned partition, the next offset to be read."""
        self._background.run(self.inner.commit(group))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets of the assigned partitions (without those that have none)."""
        return self._background.run(self.inner.committed(group))
