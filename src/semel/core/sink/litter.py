"""Which records of a sink are settled: keys that its holder puts tombstones on, so that the decision log stays small.

Settled is what no reader of the log needs, whatever else of it is left, now and for ever:

- all in front of a BEGIN that carries what was known (:class:`semel.core.sink.journal.Carried`), whether it ever
  counted or not, but for the FENCE of its own run;
- behind it, a DECISION once another one of the same run covers it, and a CUT whose range is decided.

So the newest FENCE, BEGIN and DECISION are never settled, nor are the claims and ATTEMPTs of the run that goes on. It
is for ever because it was read behind a FENCE and counted: a tombstone that a driver puts late, when it has lost the
sink, takes nothing that anybody needs. Whoever keeps no count of a key, a process that came later, finds it by reading
the log.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from semel.core.sink.journal import Begin, Cut, Decision, JournalRecord, encode

SWEPT_AT: Final = 64  # settled keys: so many tombstones go at a time while a run goes on
SWEPT_MAX: Final = 5_000  # at a time
KEYS_MAX: Final = 20_000  # that one process knows of a sink; of more it learns when it reads them again


@dataclass(slots=True)
class Litter:
    """The keys of one sink that stand in the decision log, as far as it was read."""

    _standing: dict[bytes, None] = field(default_factory=dict)  # not settled yet
    _cuts: dict[bytes, Cut] = field(default_factory=dict)  # likewise
    _settled: dict[bytes, None] = field(default_factory=dict)
    _decision: tuple[bytes, Decision] | None = None  # the newest of the run

    def see(self, key: bytes, record: JournalRecord, *, counts: bool, undecided: Collection[Cut]) -> None:
        """The next record of the sink, which the history has taken in; ``undecided`` are the CUTs that it has now."""
        if isinstance(record, Begin) and counts:
            self._begin(record)
        if key and len(self._standing) + len(self._cuts) + len(self._settled) < KEYS_MAX:
            self._settled.pop(key, None)  # a copy of what is settled: it is looked at again
            if isinstance(record, Cut):
                self._cuts[key] = record
            else:
                self._standing[key] = None
        if isinstance(record, Decision) and counts:
            before, self._decision = self._decision, (key, record)
            if before is not None and record.covers(before[1]):
                self._settle(before[0])
        if isinstance(record, (Cut, Decision)):
            for decided in [each for each, cut in self._cuts.items() if cut not in undecided]:
                self._settle(decided)

    def _begin(self, begun: Begin) -> None:
        self._decision = None
        if begun.is_whole and begun.carried is not None:
            fence, _ = encode(begun.carried.fence)
            self._settled |= dict.fromkeys([*self._standing, *self._cuts])
            self._cuts.clear()
            self._standing.clear()
            if self._settled.pop(fence, b"") is None:
                self._standing[fence] = None

    def _settle(self, key: bytes) -> None:
        is_known = self._cuts.pop(key, None) is not None or self._standing.pop(key, b"") is None
        if is_known:
            self._settled[key] = None

    def gone(self, key: bytes) -> None:
        """There is a tombstone behind it."""
        for keys in (self._standing, self._cuts, self._settled):
            keys.pop(key, None)

    @property
    def settled(self) -> list[bytes]:
        """Without a tombstone yet."""
        return list(self._settled)
