"""What ``semel consume`` does at a batch that nobody can read: it names the way on, or goes it by ``--dead-letter``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from semel.cli.output import note
from semel.errors import UnreadableBatch

if TYPE_CHECKING:
    from semel import Consumer
    from semel.client.consumer import ConsumerRecord
    from semel.client.dead_letters import DeadLetters
    from semel.types import TopicPartition


class UnreadableRows:
    """Of one topic, read by this command alone, or as a member of ``group``."""

    def __init__(self, bootstrap: str, topic: str, dead_letter: str | None, group: str | None = None) -> None:
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._dead_letter = dead_letter
        self._letters: DeadLetters | None = None
        self._damaged: set[tuple[TopicPartition, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._letters is not None:
            self._letters.close()

    def poll(self, consumer: Consumer, timeout_s: float, max_records: int) -> list[ConsumerRecord]:
        """The next rows; none, where a batch that cannot be read is kept, and the next poll goes on behind it.

        One that was damaged is read twice, for it may have been on the way.
        """
        try:
            return consumer.poll(timeout_s, max_records)
        except UnreadableBatch as found:
            if self._dead_letter is None:
                raise found.with_way_on(self._way_on(found)) from None
            at = (found.partition, found.offset)
            if found.is_damaged and at not in self._damaged:
                self._damaged.add(at)
                return []
            consumer.seek(found.partition, self._put(found))
            note(
                f"semel: {found.partition}: the batch at offset {found.offset} cannot be read ({found.why}): "
                f"{self._dead_letter} has it, and it goes on at offset {found.next_offset}"
            )
            return []

    def _put(self, found: UnreadableBatch) -> int:
        if self._letters is None:
            from semel.client.dead_letters import DeadLetters

            assert self._dead_letter is not None
            self._letters = DeadLetters(self._bootstrap, self._dead_letter)
        return self._letters.put(found)

    def _way_on(self, found: UnreadableBatch) -> str:
        at = "OFFSET, a later one: which, it does not say any more"
        if found.next_offset is not None:
            at = str(found.next_offset)
        if self._group is None:
            return (
                f"go on behind it, with --dead-letter TOPIC, which keeps it, or: "
                f"semel consume {self._topic} -p {found.partition.partition} -o {at}"
            )
        return (
            f"go on behind it, with --dead-letter TOPIC, which keeps it, or once the group has no members: semel group "
            f"seek {self._group} -t {self._topic} -p {found.partition.partition} --to {at}"
        )
