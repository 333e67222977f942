"""``order``: the records of one producer on one partition lie in the order in which it sent them.

Of one producer id the epochs rise: what an older epoch sends after a newer one has written is shut out.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.history import History, Logs, lineage_of


class Order(Checker):
    """By the numbers in the values, and by the headers' epochs."""

    name: ClassVar[str] = "order"

    def logs(self, history: History, logs: Logs) -> None:
        for tp, batches in logs.items():
            newest: dict[str, int] = {}
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
                for value in batch.values:
                    lineage, number = lineage_of(value)
                    if number <= newest.get(lineage, -1):
                        raise self.violated(f"{value!r} of {tp} lies behind number {newest[lineage]}")
                    newest[lineage] = number
