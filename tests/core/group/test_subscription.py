from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.group.subscription import subscribed_topics

TWO = bytes.fromhex("0001 00000002 0001 61 0002 6262 ffffffff 00000000")


def test_the_topics_stand_at_its_head_in_all_versions() -> None:
    assert subscribed_topics(TWO) == {"a", "bb"}
    assert subscribed_topics(b"\x00\x03" + TWO[2:]) == {"a", "bb"}
    assert subscribed_topics(bytes.fromhex("0000 00000000 ffffffff")) == frozenset()


@pytest.mark.parametrize("short", range(13))
def test_what_is_cut_short_is_in_no_known_form(short: int) -> None:
    assert subscribed_topics(TWO[:short]) is None


@given(st.binary())
def test_any_bytes_have_topics_or_none(subscription: bytes) -> None:
    found = subscribed_topics(subscription)
    assert found is None or all(isinstance(topic, str) for topic in found)
