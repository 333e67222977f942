"""The first line of a kind at once, of the rest how many; kinds are bounded, and a stranger's text is one line."""

from __future__ import annotations

import logging

import pytest

from semel.server.bounded_log import KINDS_MAX, KINDS_OF_ONE_MAX, PERIOD_S, BoundedLog, shown


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock, caplog: pytest.LogCaptureFixture) -> BoundedLog:
    caplog.set_level(logging.INFO, logger="bounded")
    return BoundedLog(logging.getLogger("bounded"), clock)


def test_one_line_at_once_and_one_for_the_rest(
    lines: BoundedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert [lines.tell(logging.WARNING, "10.0.0.1", "bad", f"bad {n}") for n in range(1000)] == [
        *range(1, 1001)
    ]
    assert caplog.messages == ["bad 0"]
    clock.now_s += PERIOD_S
    lines.sum_up()
    assert caplog.messages[1:] == ["left out 999 lines like: bad 0"]
    assert lines.tell(logging.INFO, "10.0.0.1", "bad", "bad again") == 1
    lines.sum_up(at_once=True)
    assert caplog.messages[2:] == ["bad again"]


def test_others_and_other_causes_have_their_own(lines: BoundedLog, caplog: pytest.LogCaptureFixture) -> None:
    for about in ("10.0.0.1", "10.0.0.2"):
        for cause in ("bad", "worse"):
            lines.tell(logging.INFO, about, cause, f"{about} {cause}")
    assert len(caplog.messages) == 4


def test_one_party_cannot_have_many_kinds(
    lines: BoundedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(1000):
        lines.tell(logging.INFO, "10.0.0.1", f"cause {n}", f"cause {n}")
    assert len(caplog.messages) == KINDS_OF_ONE_MAX + 1
    lines.tell(logging.INFO, "10.0.0.2", "bad", "another's")
    assert caplog.messages[-1] == "another's"
    clock.now_s += PERIOD_S
    lines.sum_up()
    assert caplog.messages[-1].startswith(f"left out {1000 - KINDS_OF_ONE_MAX - 1} lines of many kinds")


def test_many_parties_cannot_have_more_than_so_many(
    lines: BoundedLog, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(KINDS_MAX * 2):
        lines.tell(logging.INFO, f"10.0.{n // 256}.{n % 256}", "bad", "bad")
    assert len(caplog.messages) == KINDS_MAX + 1


@pytest.mark.parametrize("text", ["a\nforged line", "x" * 10_000, "\x1b[31m"])
def test_a_strangers_text_is_short_and_one_line(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) < 200
