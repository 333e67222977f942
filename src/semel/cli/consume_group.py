"""``semel consume -g``: rows as a member of a group, committed once they are printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from semel.cli.offsets import END, START, OffsetRange
from semel.cli.patience import Patience
from semel.cli.unreadable import UnreadableRows
from semel.errors import ConnectionLost, UnreadableBatch
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel import Consumer
    from semel.client.blocking import Cluster
    from semel.client.cluster import Isolation
    from semel.client.consumer import ConsumerRecord

_POLL_TIMEOUT_S = 0.5
_POLL_RECORDS_MAX = 5_000
_QUIET_S = 1.0  # without a row, before the end is looked for
_LOOKS = 2  # without a share: one that was just given is known to this member by the second look

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
    unreadable: UnreadableRows

    def print_rows(
        self, shape: Callable[[ConsumerRecord], bytes], count: int | None, exit_at_end: bool
    ) -> None:
        """Until ``count`` rows are printed, or, with ``exit_at_end``, all that there are; else for ever.

        What there is for a member whose group has given everything to others is nothing.

        What is printed is flushed before the next poll commits it: a kill in between prints it once more.
        """
        from semel import Consumer

        with (
            self._opened() as cluster,
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
            self._print(consumer, cluster, patience, shape, count, exit_at_end)

    @contextmanager
    def _opened(self) -> Iterator[Cluster]:
        from semel.cli.connect import open_cluster

        with open_cluster(self.bootstrap) as cluster:
            cluster.topic(self.topic)  # a name that is mistyped is told, not waited for
            yield cluster

    def _print(
        self,
        consumer: Consumer,
        cluster: Cluster,
        patience: Patience,
        shape: Callable[[ConsumerRecord], bytes],
        count: int | None,
        exit_at_end: bool,
    ) -> None:
        left = count
        rested_s = time.monotonic()
        looks = 0
        while left is None or left > 0:
            records: list[ConsumerRecord] = []
            try:
                with suppress(ConnectionLost), patience.asking():
                    records = self.unreadable.poll(
                        consumer, _POLL_TIMEOUT_S, min(_POLL_RECORDS_MAX, left or _POLL_RECORDS_MAX)
                    )
            except UnreadableBatch:
                consumer.close()  # all that was handed out before is printed, and flushed
                raise
            except KeyboardInterrupt:
                consumer.close(has_failed=True)  # all that was handed out before is printed
                raise
            for record in records:
                sys.stdout.buffer.write(shape(record))
            sys.stdout.buffer.flush()
            if records:
                rested_s = time.monotonic()
                left = None if left is None else left - len(records)
            elif exit_at_end and time.monotonic() - rested_s > _QUIET_S:
                has_share = bool(consumer.assignment())
                looks = looks + 1 if not has_share and self._is_with_others(cluster) else 0
                if looks == _LOOKS or (has_share and _is_at_end(consumer)):
                    return

    def _is_with_others(self, cluster: Cluster) -> bool:
        """Whether the group has given every partition to somebody, and nothing to some member.

        While partitions go from one member to another, they are nobody's: who comes newly has none, and gets some.
        """
        found = cluster.describe_groups([self.group])[self.group]
        if found is None or found.state != "Stable" or all(member.assigned for member in found.members):
            return False
        given = {tp for member in found.members for tp in member.assigned}
        return given >= {TopicPartition(self.topic, n) for n in cluster.topic(self.topic).partitions}


def _is_at_end(consumer: Consumer) -> bool:
    tps = consumer.assignment()
    ends = consumer.end_offsets(tps)
    return all(consumer.position(tp) >= ends[tp] for tp in tps)
