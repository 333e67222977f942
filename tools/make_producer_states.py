"""Write docs/producer-states.md from the tables of a producer's states.

A partition queue's (``semel.core.client.queue_states``), and its transactions'
(``semel.core.client.transaction_places``).

python tools/make_producer_states.py            # write
python tools/make_producer_states.py --check    # exit 1 if the page is not what the code says
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from docs_page import table, write_or_check

from semel.core.client import transaction_places
from semel.core.client.queue_states import TABLE, Hold, Line, Sequences, State

_INTRO: Final = """\
# The producer's states

Made by `python tools/make_producer_states.py` from `semel.core.client.queue_states` and `transaction_places`; a test
holds them together, others reach every row (`tests/core/client/test_queue_states.py`, `test_transaction.py`).

A producer has a queue for each partition that it writes to: the batches that wait, and those that are in flight. Its
queue is in three states at once, which know nothing of each other. Each event belongs to one of the three; it leads to
the next state, or leaves the queue in the state that it has, perhaps with a newer number in it (another end of the
lease, another place of the gap). An event that has no row for a state cannot come there: it ends the producer,
with an error that names both."""

_REGIONS: Final[dict[type[State], tuple[str, str]]] = {
    Line: (
        "What the line waits for",
        "Whether the next batch is sent. A pause after a failure is the batch's own (`not_before_ms`).",
    ),
    Hold: (
        "Under which grant",
        "A grant is a producer id with its epoch. That a lease is over is no state: the clock says so (`is_over`).\n"
        "From then on nothing is sent under it, and the log is asked ([Under a lease](verdicts.md#under-a-lease)).",
    ),
    Sequences: (
        "Whether there is a gap",
        "A producer without an identity goes on when a batch failed for good; one with an identity stops there.",
    ),
}


_TRANSACTIONS: Final = (
    "Its transactions",
    "Of a producer with a `transactional_id` alone, and of the whole producer: where its newest transaction stands\n"
    "([transactions.md](transactions.md)). Rows are sent in `Open` and `Flushing`.",
)
_Moves = Mapping[type[Any], type[Any]]


def page() -> str:
    """The page's text."""
    of_transactions = _section(*_TRANSACTIONS, transaction_places.TABLE)
    return "\n\n".join([_INTRO, *map(_region, _REGIONS), of_transactions]) + "\n"


def _region(region: type[State]) -> str:
    rows = {event: moves for event, moves in TABLE.items() if issubclass(next(iter(moves)), region)}
    return _section(*_REGIONS[region], rows)


def _section(title: str, why: str, rows: Mapping[Any, _Moves]) -> str:
    states = list(dict.fromkeys(state for moves in rows.values() for pair in moves.items() for state in pair))
    arrows: dict[tuple[type[Any], type[Any]], list[str]] = {}
    for event, moves in rows.items():
        for state, following in moves.items():
            if state is not following:
                arrows.setdefault((state, following), []).append(_words(event))
    diagram = [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {states[0].__name__}",
        *(
            f"    {one.__name__} --> {other.__name__}: {', '.join(names)}"
            for (one, other), names in arrows.items()
        ),
        "```",
    ]
    return "\n\n".join(
        [
            f"## {title}\n{why}",
            "\n".join(diagram),
            table(["state", "what it is"], ((_name(state), _sentence(state)) for state in states)),
            table(
                ["event", "what happened", "leads to"],
                ((f"*{_words(event)}*", event.value, _leads_to(moves)) for event, moves in rows.items()),
            ),
        ]
    )


def _leads_to(of_event: _Moves) -> str:
    """From which states to which; those that it leaves as they are come last."""
    moves: dict[type[Any], list[str]] = {}
    for state, following in of_event.items():
        if state is not following:
            moves.setdefault(following, []).append(_name(state))
    stays = [_name(state) for state, following in of_event.items() if state is following]
    parts = [f"{', '.join(names)} → {_name(following)}" for following, names in moves.items()]
    if stays:
        parts.append(f"{', '.join(stays)} {'stay' if stays[1:] else 'stays'}")
    return "; ".join(parts)


def _name(state: type[Any]) -> str:
    return f"`{state.__name__}`"


def _sentence(state: type[Any]) -> str:
    return " ".join((state.__doc__ or "").split())


def _words(event: Enum) -> str:
    return event.name.lower().replace("_", " ")


if __name__ == "__main__":
    sys.exit(write_or_check("producer-states.md", page()))
