"""Clicks of some days in two topics; each is in one session, or late. Where none can be late, sessions are exact.

Users ``late-...`` have clicks that come hours after their time. Whether those are late depends on how far the other
topic has been read by then, so of these users the clicks are counted, and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from examples.cases import Case, differing
from examples.topics import Given, rows

TOPICS = {"web-clicks": 2, "app-clicks": 2}
USERS = [f"user-{number}" for number in range(30)] + [f"late-{number}" for number in range(5)]
CLICKS = 1200  # of a part, which is a day
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
DISORDER_S = 9 * 60  # less than the flow's lateness
GAP = timedelta(minutes=30)
HEARTS = [f"heart-{number}" for number in range(64)]  # users in every partition, who click when all is over


def clicks(dice: Random, number: int) -> Sequence[Given]:
    found = []
    for place in range(CLICKS):
        user = dice.choice(USERS)
        at = BEGIN + timedelta(days=number, seconds=86_400 * place / CLICKS + dice.uniform(0, DISORDER_S))
        if user.startswith("late-") and dice.random() < 0.2:
            at -= timedelta(hours=dice.uniform(1, 12))
        found.append(_click(dice.choice(list(TOPICS)), user, at, f"/{place % 7}"))
    return found


def closing() -> Sequence[Given]:
    """A year later: all sessions are over."""
    at = BEGIN + timedelta(days=365)
    return [_click(topic, user, at, "/") for topic in TOPICS for user in HEARTS]


def wrong(bootstrap: str) -> list[str]:
    clicks = [row for topic in TOPICS for row in rows(bootstrap, topic) if row["user"] not in HEARTS]
    told = [row for row in rows(bootstrap, "sessions") if row["user"] not in HEARTS]
    late = Counter(row["user"] for row in rows(bootstrap, "sessions.late"))
    counted = Counter(late)
    for session in told:
        counted[session["user"]] += session["clicks"]
    found = differing("clicks of", counted, Counter(click["user"] for click in clicks))
    exact = {
        (session["user"], _time(session["window_start"]), _time(session["window_end"])): session["clicks"]
        for session in told
        if not session["user"].startswith("late-")
    }
    found += differing("session", exact, dict(_sessions(clicks)))
    return found


def _sessions(clicks: list[dict[str, str]]) -> Iterator[tuple[tuple[str, datetime, datetime], int]]:
    of_user: dict[str, list[datetime]] = {}
    for click in clicks:
        if not click["user"].startswith("late-"):
            of_user.setdefault(click["user"], []).append(_time(click["at"]))
    for user, times in of_user.items():
        times.sort()
        begin = 0
        for place in range(1, len(times) + 1):
            if place == len(times) or times[place] - times[place - 1] >= GAP:
                yield (user, times[begin], times[place - 1] + GAP), place - begin
                begin = place


def _click(topic: str, user: str, at: datetime, url: str) -> Given:
    return Given(topic, {"user": user, "url": url, "at": at.isoformat().replace("+00:00", "Z")}, key=user)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


CASE = Case("sessions", TOPICS, clicks, wrong, last=closing)
