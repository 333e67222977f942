"""``docs/stock-clients.md``: the method in words, and what came of it in tables. No finding is written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.peers.stock_clients.cases import CASES, ROWS, Case, Outcome, row_of
from tests.peers.stock_clients.clients import Failed, StockClient, Stored, Told
from tests.peers.stock_clients.proxy import Attempt

from semel.errors import ErrorCode

STRUCK, BEHIND, AFTER = ROWS[1:]

# The cases that semel can cause: it says 59 only when it has forgotten, and 46 only of what is stored.
_POSSIBLE: Final = [
    number
    for number, case in enumerate(CASES)
    if case.by_the_log
    or case.error_code is ErrorCode.INVALID_RECORD
    or (case.error_code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and case.stored)
]

_INTRO: Final = """\
# What stock clients make of 46, 59 and 87

Made by `python -m tests.peers.stock_clients > docs/stock-clients.md`, which drives the real clients; a test drives
them again and holds their tables to what it sees.

Three of semel's [verdicts](verdicts.md) are answers that Apache Kafka gives seldom, or for other
reasons: 46 (DUPLICATE_SEQUENCE_NUMBER) for a batch that is stored but no longer among the last five, 59
(UNKNOWN_PRODUCER_ID) for a producer that the log has forgotten and that does not start at sequence 0, and 87
(INVALID_RECORD) for a batch of which the first rows are stored and the last ones are not.

Each case is a new idempotent producer with its settings at their defaults, but for one row a batch. Row `first`
is stored and acknowledged. Then `struck` and `behind` are sent at once, and `struck` gets the answer in
question. Row `after` is sent when the application has been told of both."""

_DIGEST: Final = """\
## In short
What becomes of the rows in the cases that semel can cause. 46 means stored. 59 finds the batch stored if its
first answer was lost and the client came back only after `producer.id.expiration.ms`, a day by default. 87 is
said of batches that are half one and half the other. Who is told that a stored row failed, and sends it again,
doubles it."""

_LEGEND: Final = """\
## How to read the tables
- *answer*: "59 by the log" is semel's own, after it forgot the producer: either before `struck` was sent, or
  between its first sending, whose answer was lost, and the second. All others a proxy puts in the place of the
  log's answer; the log itself goes on as if it had not said so. 46 for what is not stored is a lie that semel
  never tells: it shows how far the answer is trusted.
- *stored*: whether the log had `struck` when the client got that answer.
- *told*: what the application hears of a row: success, success without an offset, or the error's name.
- *sent from then on*: every batch that came after the struck one, in flight or anew, as epoch/sequence, and the
  log's answer unless it was success.
- *in the log*: the rows at the end, in order, behind `first`."""


PROSE: Final = (_INTRO, _DIGEST, _LEGEND)


def page(found: Mapping[StockClient, Sequence[Outcome]]) -> str:
    """The whole page."""
    digest = _markdown(_digest_head(), [digest_row(client, outcomes) for client, outcomes in found.items()])
    parts = [_INTRO, _DIGEST, digest, _LEGEND]
    for client, outcomes in found.items():
        parts += [f"## {client.name} {client.version}", table(outcomes)]
    return "\n\n".join(parts) + "\n"


def table(outcomes: Sequence[Outcome]) -> str:
    """One client's table."""
    head = ["answer", "stored", "told of `struck`", "told of `behind`", "told of `after`"]
    head += ["sent from then on", "in the log", "in sum"]
    rows = [_row(case, outcome) for case, outcome in zip(CASES, outcomes, strict=True)]
    return _markdown(head, rows)


def digest_row(client: StockClient, outcomes: Sequence[Outcome]) -> list[str]:
    """One client's line of the table at the top."""
    return [client.name, *(_sum(outcomes[number]) for number in _POSSIBLE)]


def sent_again(case: Case, outcome: Outcome) -> bool:
    """Whether the client sent ``struck`` once more after it had its answer."""
    return any(STRUCK in _rows(attempt) for attempt in _later(case, outcome))


def _row(case: Case, outcome: Outcome) -> list[str]:
    told = [_words(outcome.told[row]) for row in (STRUCK, BEHIND, AFTER)]
    stored = "yes" if case.stored else "no"
    return [_answer(case), stored, *told, _wire(case, outcome), _log(outcome), _sum(outcome)]


def _answer(case: Case) -> str:
    return f"{case.error_code.value} by the log" if case.by_the_log else str(case.error_code.value)


def _words(told: Told) -> str:
    match told:
        case Stored(None):
            return "success, no offset"
        case Stored():
            return "success"
        case Failed(error):
            return f"`{error}`"


def _later(case: Case, outcome: Outcome) -> Sequence[Attempt]:
    """What came after the attempt that got the case's answer."""
    struck = next(
        number
        for number, attempt in enumerate(outcome.attempts)
        if STRUCK in _rows(attempt) and attempt.error_code is case.error_code
    )
    return outcome.attempts[struck + 1 :]


def _rows(attempt: Attempt) -> list[str]:
    return [row_of(value) for value in attempt.values]


def _wire(case: Case, outcome: Outcome) -> str:
    first_producer_id = outcome.attempts[0].producer_id
    sent = []
    for attempt in _later(case, outcome):
        new = "" if attempt.producer_id == first_producer_id else "new id "
        place = f"{', '.join(_rows(attempt))} {new}{attempt.producer_epoch}/{attempt.base_sequence}"
        answer = "lost" if attempt.error_code is None else str(attempt.error_code.value)
        sent.append(place if attempt.error_code is ErrorCode.NONE else f"{place}: {answer}")
    return "; ".join(sent) or "nothing"


def _log(outcome: Outcome) -> str:
    return ", ".join(outcome.stored[1:]) or "none of them"


def _sum(outcome: Outcome) -> str:
    found = []
    for row in (STRUCK, BEHIND, AFTER):
        copies, told = outcome.stored.count(row), outcome.told[row]
        if copies > 1:
            found.append(f"**`{row}` doubled**")
        elif isinstance(told, Stored) and not copies:
            found.append(f"**`{row}` lost, told as stored**")
        elif isinstance(told, Failed) and copies:
            found.append(f"`{row}` stored, told as failed")
        elif isinstance(told, Failed):
            found.append(f"`{row}` refused")
    return "; ".join(found) or "all stored once"


def _digest_head() -> list[str]:
    return ["client"] + [
        f"{CASES[number].error_code.value}, {'stored' if CASES[number].stored else 'not stored'}"
        for number in _POSSIBLE
    ]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(map(line, [head, ["---"] * len(head), *rows]))


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"
