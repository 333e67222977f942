from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core import known_letters
from semel.core.known_letters import KnownLetters


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(known_letters, "WINDOW", 3)
        patched.setattr(known_letters, "PARTITIONS_MAX", 2)
        yield


def key(partition: int, offset: int, content: int = 0) -> bytes:
    return b"t/%d/%d/%08x" % (partition, offset, content)


KEYS = st.builds(key, st.integers(0, 3), st.integers(0, 15), st.integers(0, 2))


@given(st.lists(KEYS, max_size=60), st.lists(st.one_of(KEYS, st.none()), max_size=40))
def test_whatever_was_forgotten_is_looked_for(before: list[bytes], asked: list[bytes | None]) -> None:
    """A letter is known exactly if the topic has it, in whatever order, and while others write, too (``None``)."""
    topic, known, others = list(before), KnownLetters(), iter(range(16, 1000))
    for each in topic:
        known.add(each)
    for wanted in asked:
        if wanted is None:
            wanted = key(0, next(others))
        has = known.has(wanted)
        if has is None:
            known.look_ahead(wanted, topic)
            has = known.has(wanted)
        assert has == (wanted in topic)
        if not has:
            topic.append(wanted)
            known.add(wanted)
    windows = [*known._newest.values(), *known._ahead.values()]
    assert len(known._newest) <= 2
    assert all(one.count <= 2 * 3 or len(one.keys) == 1 for one in windows)
    assert all(one.count == sum(map(len, one.keys.values())) for one in windows)


def test_what_is_new_is_not_looked_for_and_old_ones_in_order_seldom() -> None:
    topic, known = [key(0, offset) for offset in range(100)], KnownLetters()
    for each in topic:
        assert known.has(each) is False
        known.add(each)
    looks = 0
    for each in topic:
        if known.has(each) is None:
            looks += 1
            known.look_ahead(each, topic)
        assert known.has(each)
    assert looks <= 100 / 3


@pytest.mark.parametrize("other", [b"", b"user-7", b"a/b/c", b"t/0/-1/x", b"t/0/" + b"9" * 30 + b"/x"])
def test_rows_of_others_do_no_harm(other: bytes) -> None:
    known = KnownLetters()
    known.add(other)
    assert known.has(key(0, 0)) is False
