"""``semel consume -g``: rows as a member of a group, committed once they are printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from semel.cli.offsets import END, START, OffsetRange
from semel.cli.patience import Patience
from semel.errors import ConnectionLost
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel import Consumer
    from semel.client.cluster import Isolation
    from semel.client.consumer import ConsumerRecord

_POLL_TIMEOUT_S = 0.5
_POLL_RECORDS_MAX = 5_000
_QUIET_S = 1.0  # without a row, and with a share of its own, before the end is looked for

Reset = Literal["earliest", "latest"]


def check_choices(wanted: OffsetRange, partition: list[int] | None) -> Reset:
    """Where to begin where nothing was committed; what makes no sense in a group is wrong usage."""
    if partition:
        raise typer.BadParameter("-p does not go with -g: the group's members share the partitions out")
    if wanted == OffsetRange(START):
        return "earliest"
    if wanted == OffsetRange(END):
        return "latest"
    raise typer.BadParameter(
        f"-o {wanted} does not go with -g: only start or end, for partitions of which nothing was committed; "
        "semel group seek sets where a group goes on"
    )


@dataclass(frozen=True, slots=True)
class GroupRead:
    """One member's reading of a topic."""

    bootstrap: str
    topic: str
    group: str
    reset: Reset
    isolation: Isolation
    settings: dict[str, Any]

    def print_rows(
        self, shape: Callable[[ConsumerRecord], bytes], count: int | None, exit_at_end: bool
    ) -> None:
        """Until ``count`` rows are printed, or, with ``exit_at_end``, all that there are; else for ever.

        What is printed is flushed before the next poll commits it: a kill in between prints it once more.
        """
        from semel import Consumer
        from semel.cli.connect import open_cluster

        with open_cluster(self.bootstrap) as cluster:
            cluster.topic(self.topic)  # a name that is mistyped is told, not waited for
        with (
            Consumer(
                self.bootstrap,
                group_id=self.group,
                auto_offset_reset=self.reset,
                isolation=self.isolation,
                **self.settings,
            ) as consumer,
            Patience(lambda: consumer.inner.cluster.trouble) as patience,
        ):
            consumer.subscribe([self.topic])
            self._print(consumer, patience, shape, count, exit_at_end)

    def _print(
        self,
        consumer: Consumer,
        patience: Patience,
        shape: Callable[[ConsumerRecord], bytes],
        count: int | None,
        exit_at_end: bool,
    ) -> None:
        left = count
        rested_s = time.monotonic()
        while left is None or left > 0:
            records: list[ConsumerRecord] = []
            try:
                with suppress(ConnectionLost), patience.asking():
                    records = consumer.poll(
                        _POLL_TIMEOUT_S, min(_POLL_RECORDS_MAX, left or _POLL_RECORDS_MAX)
                    )
            except KeyboardInterrupt:
                consumer.close(has_failed=True)  # all that was handed out before is printed
                raise
            for record in records:
                sys.stdout.buffer.write(shape(record))
            sys.stdout.buffer.flush()
            if records:
                rested_s = time.monotonic()
                left = None if left is None else left - len(records)
            elif exit_at_end and time.monotonic() - rested_s > _QUIET_S and self._is_at_end(consumer):
                return

    def _is_at_end(self, consumer: Consumer) -> bool:
        tps: list[TopicPartition] = consumer.assignment()
        if not tps:
            return False
        ends = consumer.end_offsets(tps)
        return all(consumer.position(tp) >= ends[tp] for tp in tps)
