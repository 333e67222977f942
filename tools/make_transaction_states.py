"""Write docs/transaction-states.md from the table of a transaction's states (``semel.core.transaction.states``).

python tools/make_transaction_states.py            # write
python tools/make_transaction_states.py --check    # exit 1 if the page is not what the code says
"""

from __future__ import annotations

import sys
from typing import Final

from docs_page import table, write_or_check

from semel.core.transaction.states import MEANING, VALID_PREVIOUS, TransactionState

_INTRO: Final = """\
# A transaction's states

Made by `python tools/make_transaction_states.py` from `semel.core.transaction.states`; a test holds the two together.

Each transactional id is in one of these states, as the newest record of it in `__transaction_state` says. Clients are
told them by the same names (`semel txn list`, `kafka-transactions list`), which are Kafka's."""

_STEPS: Final = """\
## What leads where

- **InitProducerId** grants the name: from a state at rest to *Empty*, at a raised epoch. What is *Ongoing* is aborted
  first, at an epoch that nobody is granted, so whoever held the name before is fenced; what is prepared ends first.
- **AddPartitionsToTxn**, **AddOffsetsToTxn**, or by KIP-890 **Produce** and **TxnOffsetCommit** themselves: to
  *Ongoing*. The time-out counts from the first of them.
- **EndTxn** decides: to *PrepareCommit* or *PrepareAbort*. By KIP-890 the epoch rises with it. Asked once more it is
  answered once more; asked for the other it is INVALID_TXN_STATE. A client of KIP-890 may abort what is at rest, too.
- **The time-out**: from *Ongoing* to *PrepareAbort*, at a raised epoch, which its client learns of as PRODUCER_FENCED.
- **The markers**: once each partition has its marker durably, to *CompleteCommit* or *CompleteAbort*. Killed in
  between, the server goes on with it at the next start; refused by a full disk, a second later.
- **A rest** of `transactional.id.expiration.ms` in a state at rest: a tombstone, and the name is nobody's."""


def page() -> str:
    """The page's text."""
    arrows = [
        f"    {before.title} --> {after.title}"
        for after, befores in VALID_PREVIOUS.items()
        for before in sorted(befores)
        if before is not after
    ]
    first = TransactionState.EMPTY.title
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, "```"]
    states = (
        (f"`{state.title}`", state.value, MEANING[state], _names(VALID_PREVIOUS[state]))
        for state in TransactionState
    )
    return (
        "\n\n".join(
            [
                _INTRO,
                "\n".join(diagram),
                table(["state", "in the log", "what it is", "comes behind"], states),
                _STEPS,
            ]
        )
        + "\n"
    )


def _names(states: frozenset[TransactionState]) -> str:
    return ", ".join(f"`{state.title}`" for state in sorted(states))


if __name__ == "__main__":
    sys.exit(write_or_check("transaction-states.md", page()))
