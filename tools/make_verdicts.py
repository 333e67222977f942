"""Write docs/verdicts.md from the table of verdicts (``semel.core.producer_state.table``).

python tools/make_verdicts.py            # write
python tools/make_verdicts.py --check    # exit 1 if the page is not what the code says
"""

from __future__ import annotations

import sys
from typing import Final

from docs_page import table, write_or_check

from semel.core.producer_state.table import TABLE, Batch, Outcome, Row, Told
from semel.core.producer_state.verdict import Duplicate
from semel.errors import CannotKnow, ErrorCode, FencedInDoubt, FencedNotStored, NotStored

_INTRO: Final = """\
# Verdicts

Made by `python tools/make_verdicts.py` from `semel.core.producer_state.table`. Tests carry every row out, by the name
of its scenario: on a producer's state (`tests/core/producer_state/test_verdict.py`), in the client's pipeline
(`tests/core/client/test_verdicts.py`), on a server over the wire, and on a real Apache Kafka for its column
(`tests/verdicts/test_over_the_wire.py`); those of transactions on a partition, too
(`tests/server/storage/test_transactions.py`). `pytest -k straddling` runs one.

A batch has a producer's id, its epoch, and the sequences of its rows. The *mark* is the last sequence that the
partition has stored of the epoch. *Below* and *beyond* are meant by distance, never by magnitude: after 2^31-1 comes
0. The last five batches of the epoch are remembered with their offsets. A *fence* is a marker, as it ends Kafka's
transactions, without a transaction: it begins an epoch of a producer, and shuts out the lower ones. A transaction is
*open* on a partition from its first batch there to its marker; where a row says nothing of one, none is, and where a
batch is of one, its coordinator vouches for it: else it is refused before it is judged (120 TRANSACTION_ABORTABLE or,
to older clients, 48 INVALID_TXN_STATE; 47 INVALID_PRODUCER_EPOCH where its epoch is not the coordinator's). A
*leased* id is one that ends at a time ([Under a lease](#under-a-lease))."""

_LOG: Final = """\
## What the log says
*Stored* is whether the batch is in the log when it has been answered. Where semel and Apache Kafka differ, Kafka's
answer is in bold. It has no leases; what it makes of markers holds for whoever may write them. The server counts each
in `semel_verdicts_total`, by what was judged, verdict and code (`--metrics`)."""

_CLIENT: Final = """\
## What semel's producer makes of it
*At once*: no attempt before went unanswered. *After silence*: one did, and this is the answer to a later one."""

_EXCEPTIONS: Final = """\
## What to do
Every row that was sent ends as one of these, at `send(…).result()`, `flush()` and `close()`. The type says where the
row is, `.code` what a leader said last, the text why. [The whole tree](reference.md#errors) is in the reference."""

_LEASES: Final = """\
## Under a lease
With `Producer(lease=True)` *cannot know* is not the last word as long as a leader answers: what would be in doubt is
asked of the log, and if that does not settle it, the id is shut out of the partition and the log is read; what is not
there by then never comes, and goes anew under the next lease. What is left in doubt is what no leader answered for in
`delivery_timeout_ms`, what was trimmed before it could be read, and what somebody else had a hand in: who fences the id
or writes under it. The simulator holds the producer to it (`in_doubt_only_in_silence`).

Leases are semel's own. Apache Kafka skips the tagged field that asks for one and gives an id as ever, so
`Producer(lease=True)` sends nothing there: every row is `NotStored`, with the advice to leave `lease=True` out."""

_WHICH: Final = """\
## Which producer
A producer is one of three. All three are idempotent and in order as long as their process lives; they differ in what is
known when something dies."""

_PRODUCERS: Final = (
    (
        "`Producer(…)`",
        "`CannotKnow` when an answer was lost and no later one settles it",
        "gone with its process: what a new one sends again is stored again",
        "rows that may be doubled after a crash, or that somebody can look up",
    ),
    (
        "`Producer(…, lease=True)`",
        "definite as long as a leader answers in time ([Under a lease](#under-a-lease)); a row that failed "
        "stops nobody",
        "the same: a lease belongs to a process",
        "long-lived processes (a service, a collector) that cannot hand their rows again, and have to know of each",
    ),
    (
        "`Producer(…, identity_store=…)`",
        "`CannotKnow` as above; the producer stops at the first row that failed",
        "run again with the same input, or more of it, it goes on at the first row that is not stored, and its older "
        "copy is shut out; other input, or another topic, is `InputDiffers`",
        "loaders of an input that can be read again: a file, a table, another log",
    ),
)

_TOLD: Final = {
    Told.STORED: ("stored", "a report with partition, offset and sequence"),
    Told.ANEW: ("not stored; goes anew, then stored", "a report, as if nothing had been"),
    Told.FENCED: ("not stored", f"`{FencedNotStored.__name__}`"),
    Told.FENCED_IN_DOUBT: ("cannot know", f"`{FencedInDoubt.__name__}`"),
    Told.CANNOT_KNOW: ("cannot know", f"`{CannotKnow.__name__}`"),
}

_TO_DO: Final = (
    (
        "a report",
        "stored",
        "nothing. Without an offset, only the fact is known: the answer was 46, or the log's own",
    ),
    (
        f"`{NotStored.__name__}`",
        "not stored, and never will be",
        "mend what it names, and send the row again",
    ),
    (
        f"`{CannotKnow.__name__}`",
        "cannot know",
        "resume with the same identity (`identity_store=`), or read the topic if there is none; never send it again "
        "blindly",
    ),
    (
        f"`{FencedNotStored.__name__}`, `{FencedInDoubt.__name__}`",
        "not stored; cannot know",
        "stop: another copy of this producer runs, and goes on. Both are `ProducerFenced`",
    ),
)


def page() -> str:
    """The page's text."""
    told = [row for row in TABLE if row.outcome.told or row.outcome.told_in_doubt]
    parts = [
        _INTRO,
        _LOG,
        table(
            ["a batch that", "verdict", "on the wire", "stored", "Apache Kafka", "scenario"],
            map(_log_row, TABLE),
        ),
        "What stock clients make of 46, 59 and 87 is [a page of its own](stock-clients.md).",
        _CLIENT,
        table(
            ["scenario", "on the wire", "at once", "after silence", "the caller gets"], map(_client_row, told)
        ),
        _EXCEPTIONS,
        table(["what comes", "the row is", "to do"], _TO_DO),
        _WHICH,
        table(["producer", "what becomes of a row", "after its process died", "for"], _PRODUCERS),
        _LEASES,
    ]
    return "\n\n".join(parts) + "\n"


def _log_row(row: Row) -> list[str]:
    outcome = row.outcome
    return [
        row.batch,
        f"`{outcome.verdict.__name__}`",
        _code(outcome.code, row.base_offset),
        _stored(row),
        _kafka(row),
        f"`{row.scenario}`",
    ]


def _client_row(row: Row) -> list[str]:
    told = [one for one in (row.outcome.told, row.outcome.told_in_doubt) if one is not None]
    cells = [_TOLD[one][0] if one else "" for one in (row.outcome.told, row.outcome.told_in_doubt)]
    return [
        f"`{row.scenario}`",
        _code(row.outcome.code, row.base_offset),
        *cells,
        "; ".join(dict.fromkeys(_TOLD[one][1] for one in told)),
    ]


def _code(code: ErrorCode, base_offset: int | None) -> str:
    if code is ErrorCode.NONE:
        return "0" if base_offset is None else "0, with its offset"
    return f"{int(code)} {code.name}"


def _stored(row: Row) -> str:
    outcome = row.outcome
    if not isinstance(row.sent, Batch):
        return ""
    if outcome.verdict is Duplicate or row.sent in row.before:
        return "before"
    if outcome.code is ErrorCode.INVALID_RECORD:
        return "its first rows, before"
    return "now" if outcome.code is ErrorCode.NONE else "no"


def _kafka(row: Row) -> str:
    outcome: Outcome = row.outcome
    if outcome.kafka is None:
        return "no leases"
    if outcome.kafka is outcome.code:
        return "the same"
    return (
        f"**{_code(outcome.kafka, row.base_offset)}{', stored' if outcome.kafka is ErrorCode.NONE else ''}**"
    )


if __name__ == "__main__":
    sys.exit(write_or_check("verdicts.md", page()))
