"""``order``: the records of one producer on one partition lie in the order in which it sent them.

Three parts. Under one producer id: all records, acknowledged or not. Across the ids that one producer had
one after another: the acknowledged ones; a record in doubt may still be under way when its producer goes on
with another id, and can come late. Of one producer id the epochs rise: what an older epoch sends after a
newer one has written is shut out.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, LoggedBatch, Logs, Promise, lineage_of


class Order(Checker):
    """By the numbers in the values, and by the headers' epochs."""

    name: ClassVar[str] = "order"

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            newest: dict[tuple[str, int | None], int] = {}
            newest_epoch: dict[int, int] = {}
            for batch in batches:
                header = batch.header
                known_epoch = newest_epoch.get(header.producer_id, -1)
                if header.producer_epoch < known_epoch:
                    raise self.violated(
                        f"epoch {header.producer_epoch} of producer {header.producer_id} lies at offset "
                        f"{header.base_offset} of {tp}, behind its epoch {known_epoch}"
                    )
                newest_epoch[header.producer_id] = header.producer_epoch
                self._check_values(history, batch, newest)

    def _check_values(
        self, history: History, batch: LoggedBatch, newest: dict[tuple[str, int | None], int]
    ) -> None:
        for value in batch.values:
            lineage, number = lineage_of(value)
            record = history.records.get(value)
            lines: list[tuple[str, int | None]] = [(lineage, batch.header.producer_id)]
            if record is not None and record.promise is Promise.STORED:
                lines.append((lineage, None))
            for line in lines:
                if number <= newest.get(line, -1):
                    raise self.violated(f"{value!r} lies behind number {newest[line]}: {batch}")
                newest[line] = number
