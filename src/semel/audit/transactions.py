"""Are exactly the rows of committed transactions to be seen? Decided over batch headers and markers; pure.

A read_committed reader is told by the server which rows are of aborted transactions. The log itself says it too: a
transaction's rows of a partition stand before its marker there (KIP-98). The one is held against the other:

``aborted_visible``  rows are to be seen, and the marker behind them is of an abort
``open_visible``     rows are to be seen, and there is no marker behind them
``committed_hidden`` rows are left out, and the marker behind them is of a commit

What lies behind the first row of an open transaction is not to be seen yet, whoever wrote it: it is counted.

Bounded: one small entry per partition and producer with a transaction under way, the first findings only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.record.batch import BatchHeader
from semel.record.control import MarkerType
from semel.types import TopicPartition
from semel.wording import counted

_MEANING = {
    "aborted_visible": "are of an aborted transaction, and the server gives them to a read_committed reader",
    "open_visible": "are of a transaction without an end, and the server gives them to a read_committed reader",
    "committed_hidden": "are of a committed transaction, and the server leaves them out",
}


@dataclass(frozen=True, slots=True)
class TransactionFinding:
    """Rows of one transaction in one partition that should not be seen, or should."""

    check: str
    partition: TopicPartition
    first_offset: int
    row_count: int
    producer_id: int

    def __str__(self) -> str:
        return (
            f"{self.partition} offset {self.first_offset}: {counted(self.row_count, 'row')} of producer "
            f"{self.producer_id} {_MEANING[self.check]}"
        )


@dataclass(frozen=True, slots=True)
class TransactionVerdict:
    """Rows of transactions, by how those ended, and every one that is seen or hidden against that."""

    committed_rows: int
    aborted_rows: int
    open_rows: int
    waiting_rows: int  # committed, or of no transaction, but behind an open one
    finding_count: int
    findings: tuple[TransactionFinding, ...]

    def not_compared(self) -> list[str]:
        """Rows that a read_committed reader is not given yet."""
        parts = []
        if self.open_rows:
            parts.append(f"{counted(self.open_rows, 'row')} of open transactions")
        if self.waiting_rows:
            parts.append(f"{counted(self.waiting_rows, 'row')} behind an open transaction")
        return parts


@dataclass(slots=True)
class _UnderWay:
    visible: int = 0
    hidden: int = 0
    beyond: int = 0
    first_offset: int = -1


@dataclass(slots=True)
class TransactionCheck:
    """Feed every batch of every partition in log order; then ask for the verdict."""

    examples_max: int = 10
    _under_way: dict[tuple[TopicPartition, int], _UnderWay] = field(default_factory=dict)
    _compacted: bool = False
    _committed: int = 0
    _aborted: int = 0
    _waiting: int = 0
    _findings: list[TransactionFinding] = field(default_factory=list)
    _finding_count: int = 0

    def begin(self, *, compacted: bool) -> None:
        """In a compacted log markers go too, once their rows are gone: what has none is not judged."""
        self._compacted = compacted

    def feed(
        self,
        partition: TopicPartition,
        header: BatchHeader,
        *,
        is_visible: bool,
        marker: MarkerType | None = None,
        beyond: bool = False,
    ) -> None:
        """The next batch; ``beyond``: it lies behind what a read_committed reader is given."""
        if header.is_control:
            if marker is not None:
                self._end(partition, header.producer_id, marker)
            return
        if not header.is_transactional:
            self._waiting += header.record_count if beyond else 0
            return
        found = self._under_way.setdefault((partition, header.producer_id), _UnderWay())
        if found.first_offset < 0:
            found.first_offset = header.base_offset
        if beyond:
            found.beyond += header.record_count
        elif is_visible:
            found.visible += header.record_count
        else:
            found.hidden += header.record_count

    def verdict(self) -> TransactionVerdict:
        """What was found in all that was fed."""
        open_rows = 0
        for (partition, producer_id), found in self._under_way.items():
            open_rows += found.beyond
            self._aborted += found.hidden
            if self._compacted:
                self._committed += found.visible
            elif found.visible:
                self._find("open_visible", partition, producer_id, found.first_offset, found.visible)
        self._under_way.clear()
        return TransactionVerdict(
            self._committed,
            self._aborted,
            open_rows,
            self._waiting,
            self._finding_count,
            tuple(self._findings),
        )

    def _end(self, partition: TopicPartition, producer_id: int, marker: MarkerType) -> None:
        found = self._under_way.pop((partition, producer_id), None)
        if found is None:
            return
        if marker is MarkerType.COMMIT:
            self._committed += found.visible
            self._waiting += found.beyond
            if found.hidden:
                self._find("committed_hidden", partition, producer_id, found.first_offset, found.hidden)
        else:
            self._aborted += found.hidden + found.beyond
            if found.visible:
                self._find("aborted_visible", partition, producer_id, found.first_offset, found.visible)

    def _find(
        self, check: str, partition: TopicPartition, producer_id: int, first_offset: int, row_count: int
    ) -> None:
        self._finding_count += 1
        if len(self._findings) < self.examples_max:
            self._findings.append(TransactionFinding(check, partition, first_offset, row_count, producer_id))
