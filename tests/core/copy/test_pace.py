"""How fast a copy may be."""

from hypothesis import given
from hypothesis import strategies as st

from semel.core.copy.pace import CREDIT_MS_MAX, Pace


def test_what_was_sent_at_once_is_owed_in_full():
    pace = Pace(500_000, 0)
    pace.send(24_000_000, 0)
    assert pace.owed_ms(0) == 48_000
    assert pace.owed_ms(1_000) == 47_000
    assert pace.owed_ms(47_999) == 1
    assert pace.owed_ms(48_000) == 0


def test_an_idle_night_is_not_made_up_for():
    pace = Pace(1_000, 0)
    pace.send(10_000, 36_000_000)
    assert pace.owed_ms(36_000_000) == 10_000 - CREDIT_MS_MAX


def test_a_clock_that_stands_earns_nothing():
    pace = Pace(3, 100)
    pace.send(1, 100)
    assert pace.owed_ms(50) == pace.owed_ms(100) == 334  # never too early


@given(
    rate=st.integers(1, 10**9),
    sent=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 5_000)), max_size=20),
)
def test_no_stretch_has_more_than_the_rate_the_credit_and_one_piece(rate, sent):
    """Of who sends a piece only where nothing is owed."""
    pace, now_ms, total, largest = Pace(rate, 0), 0, 0, 0
    for size_bytes, idle_ms in sent:
        now_ms += pace.owed_ms(now_ms) + idle_ms
        assert pace.owed_ms(now_ms) == 0
        pace.send(size_bytes, now_ms)
        total, largest = total + size_bytes, max(largest, size_bytes)
        assert (total - largest) * 1000 <= rate * (now_ms + CREDIT_MS_MAX)
