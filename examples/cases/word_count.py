"""Lines of words; each word is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from examples.cases import Case, differing
from examples.topics import Given, rows, values

WORDS = 500
LINES = 1500


def lines(dice: Random, number: int) -> Sequence[Given]:
    found = [
        Given(
            "lines",
            {"line": " ".join(f"w{int(dice.paretovariate(0.6)) % WORDS}" for _ in range(dice.randrange(9)))},
        )
        for _ in range(LINES)
    ]
    return [*found, Given("lines", b"no JSON: %d" % number)]


def wrong(bootstrap: str) -> list[str]:
    expected = Counter(
        word for row in rows(bootstrap, "lines") for word in (row.get("line") or "").lower().split()
    )
    last = {row["word"]: row["count"] for row in rows(bootstrap, "word-counts")}
    unread = sum(1 for value in values(bootstrap, "lines") if not (value or b"").startswith(b"{"))
    bad = sum(1 for _ in values(bootstrap, "word-counts.bad"))
    return differing("word", last, expected) + (
        [] if bad == unread else [f"{bad} bad records instead of {unread}"]
    )


CASE = Case("counts", {"lines": 3}, lines, wrong)
