"""The states of a transaction, and which may follow which (Kafka's ``TransactionState``).

Kafka's *Dead* and *PrepareEpochFence* are not there: an id that is forgotten has a tombstone, and a fence that aborts
is one step here, from *Ongoing* to *PrepareAbort* at the raised epoch. ``docs/transaction-states.md`` is made of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The number is that in the log; :attr:`title` is what clients are told, :data:`MEANING` what it is."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_decided(self) -> bool:
        """Whether it is known how the last transaction ends, or has ended."""
        return self not in (TransactionState.EMPTY, TransactionState.ONGOING)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it is open."""
        return not self.is_prepared and self is not TransactionState.ONGOING


_AT_REST: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)

MEANING: Final[Mapping[TransactionState, str]] = {
    TransactionState.EMPTY: "The name is granted, and nothing was written under the grant.",
    TransactionState.ONGOING: "Partitions are registered; each may have rows that nobody counts yet.",
    TransactionState.PREPARE_COMMIT: (
        "It is decided, durably: every partition will have the commit marker, whatever dies in between."
    ),
    TransactionState.PREPARE_ABORT: "Likewise, for the abort.",
    TransactionState.COMPLETE_COMMIT: "Every partition has the commit marker, durably.",
    TransactionState.COMPLETE_ABORT: "Every partition has the abort marker, durably.",
}

VALID_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # One that nothing was written in can be aborted, too, by clients whose epoch rises with it (KIP-890).
    TransactionState.PREPARE_ABORT: _AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}


def may_follow(before: TransactionState | None, after: TransactionState) -> bool:
    """Whether a record in ``after`` may come behind one in ``before``; None: behind no other."""
    return after is TransactionState.EMPTY if before is None else before in VALID_PREVIOUS[after]
