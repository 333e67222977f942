"""A state depends on the entries alone, however they are cut; and a restore gives the one that was decided."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.stage import ENTRIES, KEYS, VALUES, Stage, cuts_of, model

from semel.core.flow import state as states
from semel.core.flow.changelog import ChangelogRows, Kind, joined
from semel.core.flow.state import (
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    CommittedState,
    MemoryBase,
    State,
    inline_bytes_max,
    is_snapshot_due,
    rules,
    successor,
    trim_offsets,
)
from semel.core.sink.refusal import Refusal

SMALL = 1000


def fresh(inline_max: int = SMALL) -> State:
    return State(MemoryBase(), None, inline_bytes_max=inline_max)


def everything(base: MemoryBase) -> dict[bytes, bytes]:
    return dict(base.scan(b"", None))


def kinds(rows: ChangelogRows) -> list[Kind]:
    return [Kind(value.as_py()[8]) for value in rows.values]


# --- where it is written ------------------------------------------------------------------------------


def test_a_small_state_rides_in_the_decision() -> None:
    state = fresh()
    state.put(b"user", b"3")
    assert not list(state.end_entry(0))
    committed = state.committed()
    assert committed.inline is not None
    assert everything(MemoryBase.decoded(committed.inline)) == {b"user": b"3"}


def test_a_stage_that_has_decided_nothing_has_no_state() -> None:
    assert everything(MemoryBase.decoded(None)) == {}
    assert everything(MemoryBase.decoded(fresh().committed().inline)) == {}


def test_the_first_entry_after_which_it_is_too_large_writes_a_snapshot() -> None:
    state = fresh(inline_max=60)
    state.put(b"b", b"1")
    assert not list(state.end_entry(4))
    state.put(b"a", b"x" * 60)
    rows = joined(state.end_entry(7))
    assert kinds(rows) == [Kind.SNAPSHOT_BEGIN, Kind.SNAPSHOT_ROW, Kind.SNAPSHOT_ROW, Kind.END]
    assert [key.as_py() for key in rows.keys][1:3] == [b"a", b"b"]
    assert {int.from_bytes(value.as_py()[:8], "big") for value in rows.values} == {7}
    assert state.committed().inline is None


def test_it_never_goes_back_to_the_decision() -> None:
    state = fresh(inline_max=20)
    state.put(b"key", b"x" * 60)
    list(state.end_entry(0))
    state.delete(b"key")
    assert kinds(joined(state.end_entry(1))) == [Kind.DELETION, Kind.END]
    assert state.committed().inline is None
    assert state.meta.key_count == state.meta.size_bytes == 0


def test_only_what_changed_in_the_end_is_written_in_the_order_of_keys() -> None:
    state = fresh(inline_max=0)
    for key in (b"same", b"other", b"gone"):
        state.put(key, b"1")
    list(state.end_entry(0))
    state.put(b"same", b"2")
    state.put(b"same", b"1")
    state.put(b"passing", b"1")
    state.delete(b"passing")
    state.put(b"other", b"2")
    state.delete(b"gone")
    state.delete(b"never there")
    rows = joined(state.end_entry(1))
    assert kinds(rows) == [Kind.DELETION, Kind.CHANGE, Kind.END]
    assert [key.as_py() for key in rows.keys] == [b"gone", b"other", b""]
    assert state.get(b"passing") is None


def test_an_entry_that_changes_nothing_writes_nothing() -> None:
    state = fresh(inline_max=0)
    state.put(b"key", b"1")
    list(state.end_entry(0))
    before = state.committed()
    state.put(b"key", b"1")
    assert not list(state.end_entry(1))
    assert state.committed() == before


def test_a_snapshot_takes_the_place_of_changes_that_outgrow_the_keys() -> None:
    stage = Stage(inline_bytes_max=0, snapshot_changes_min=2)
    entries = [((b"key", str(number).encode()),) for number in range(9)]
    state, written = stage.attempt(MemoryBase(), entries)
    begins = [rows for rows in written if Kind.SNAPSHOT_BEGIN in kinds(rows)]
    # 1 snapshot at first; one key, so that 2 * 1 + 2 changes stand behind it, and the next one makes a snapshot.
    assert len(begins) == 2
    assert state.meta.written == 3
    assert is_snapshot_due(10_003, 1) and not is_snapshot_due(10_002, 1)


@pytest.mark.parametrize("partition_count", [1, 4, 64, 65, 1000, 5000, 100_000])
def test_inline_states_fit_in_a_decision(partition_count: int) -> None:
    bound = inline_bytes_max(partition_count)
    rng = random.Random(partition_count)
    state = fresh(inline_max=bound)
    size = 0
    while (size := size + 17) <= bound:  # keys of one byte cost the most: as random as they come
        state.put(rng.randbytes(1) if size < 500 else rng.randbytes(1 + size % 3), b"")
    list(state.end_entry(0))
    committed = state.committed()
    if committed.inline is not None:
        as_text = (len(committed.inline) + 2) // 3 * 4
        assert as_text <= min(64 * 1024, 4 * 2**20 // partition_count) or not state.meta.key_count
    one = fresh(inline_max=bound)
    one.put(b"k", rng.randbytes(max(0, bound - 17)))  # cannot be squeezed
    list(one.end_entry(0))
    if bound >= 17:
        inline = one.committed().inline
        assert inline is not None
        assert (len(inline) + 2) // 3 * 4 <= min(64 * 1024, 4 * 2**20 // partition_count)


def test_a_state_of_a_later_format_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="newer semel"):
        MemoryBase.decoded(b"\x07abc")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [(b"k" * (KEY_BYTES_MAX + 1), b"", "a key"), (b"k", b"v" * (VALUE_BYTES_MAX + 1), "a value")],
)
def test_what_fits_in_no_record_is_refused_in_words(key: bytes, value: bytes, told: str) -> None:
    state = fresh()
    with pytest.raises(ValueError, match=f"{told} of the state has"):
        state.put(key, value)
    with pytest.raises(ValueError, match=f"{told} of the state has"):
        state.of(b"").put_many([b"other", key], [b"", value])
    state.put(b"k" * KEY_BYTES_MAX, b"v" * VALUE_BYTES_MAX)
    list(state.end_entry(0))


def test_the_end_of_an_entry_is_one_moment() -> None:
    state = fresh(inline_max=0)
    state.put(b"key", b"1")
    with pytest.raises(RuntimeError, match="not at its end"):
        state.committed()
    messages = state.end_entry(3)
    with pytest.raises(RuntimeError, match="not at its end"):
        state.committed()
    with pytest.raises(RuntimeError, match="taken first"):
        state.end_entry(4)
    list(messages)
    with pytest.raises(ValueError, match="comes after"):
        state.end_entry(3)


def test_a_snapshot_is_of_its_entry_whatever_the_next_one_does_meanwhile() -> None:
    state = fresh(inline_max=0)
    state.put(b"a", b"1")
    messages = state.end_entry(0)
    state.put(b"b", b"2")
    state.put(b"a", b"3")
    rows = joined(messages)
    assert [key.as_py() for key in rows.keys] == [b"", b"a", b""]
    assert rows.values[1].as_py()[9:] == b"1"


def test_an_entry_that_failed_was_never_there() -> None:
    state = fresh(inline_max=0)
    state.put(b"a", b"1")
    list(state.end_entry(0))
    before = state.committed()
    state.put(b"a", b"2")
    state.put(b"b", b"2")
    assert list(state.scan()) == [(b"a", b"2"), (b"b", b"2")]
    state.drop_entry()
    assert list(state.scan()) == [(b"a", b"1")]
    assert state.committed() == before
    assert not list(state.end_entry(1))


def test_the_rules_are_part_of_a_plan() -> None:
    assert rules(4) != rules(4096)


# --- any cut, any decided end -------------------------------------------------------------------------


@given(st.data(), ENTRIES, st.integers(0, 400), st.integers(0, 8))
def test_any_cut_writes_the_same(data, entries, inline_max, changes_min):
    one, other = (
        Stage(inline_max, changes_min).run(entries, data.draw(cuts_of(len(entries)))) for _ in range(2)
    )
    assert joined(one.log).keys.equals(joined(other.log).keys)
    assert joined(one.log).values.equals(joined(other.log).values)
    for end in one.decisions.keys() & other.decisions.keys() - {0}:
        ours, theirs = one.decisions[end][0], other.decisions[end][0]
        assert ours is not None and theirs is not None
        assert (ours.inline, ours.digest) == (theirs.inline, theirs.digest)
    assert one.base().meta == other.base().meta


@given(st.data(), ENTRIES, st.integers(0, 400), st.integers(0, 8))
def test_every_decided_state_is_restored(data, entries, inline_max, changes_min):
    stage = Stage(inline_max, changes_min).run(entries, data.draw(cuts_of(len(entries))))
    for end, (decided, _) in stage.decisions.items():
        base = stage.base_at(end)
        expected = model(entries[:end])
        assert everything(base) == expected
        assert len(base) == base.meta.key_count == len(expected)
        assert base.meta.size_bytes == sum(len(key) + len(value) + 16 for key, value in expected.items())
        if decided is not None and decided.inline is None:
            # What stands behind the decided end does not matter, nor how the messages come.
            whole = sum(map(len, stage.log))
            pieces = stage.messages(decided.changelog_from, whole, data.draw(st.integers(1, 5)))
            again = MemoryBase.restored(pieces, end, decided)
            assert isinstance(again, MemoryBase)
            assert everything(again) == expected
            assert again.meta == base.meta


@given(st.data(), ENTRIES)
def test_no_message_may_be_missing(data, entries):
    stage = Stage(0, 4).run(entries, [len(entries)] if entries else [])
    decided = stage.decided
    if decided is None or decided.inline is not None:
        return
    (rows,) = stage.messages(0, stage.changelog_end)
    gone = data.draw(st.integers(0, len(rows) - 1))
    begins = [at for at, kind in enumerate(kinds(rows)) if kind is Kind.SNAPSHOT_BEGIN]
    keep = [at for at in range(len(rows)) if at != gone]
    left = ChangelogRows(rows.keys.take(keep), rows.values.take(keep))
    base = MemoryBase.restored([left], stage.decided_end, decided)
    if gone < begins[-1]:  # in front of the snapshot: nobody needs it
        assert isinstance(base, MemoryBase)
    else:
        assert isinstance(base, Refusal)
        assert "changelog" in base.evidence


@given(st.data(), ENTRIES)
def test_what_lies_in_front_of_the_newest_snapshot_may_be_deleted(data, entries):
    stage = Stage(data.draw(st.integers(0, 200)), data.draw(st.integers(0, 5)))
    stage.run(entries, data.draw(cuts_of(len(entries))))
    if stage.decided is None:
        return
    trimmed = trim_offsets({3: stage.decided}, {3: stage.changelog_end, 4: 9})
    if stage.decided.inline is not None:
        assert trimmed == {}
        return
    assert trimmed[3] <= stage.changelog_end
    messages = stage.messages(trimmed[3], stage.changelog_end)
    base = MemoryBase.restored(messages, stage.decided_end, stage.decided)
    assert isinstance(base, MemoryBase)
    assert everything(base) == model(entries)


def test_nothing_is_deleted_behind_a_decided_end() -> None:
    named = CommittedState(None, changelog_from=70, digest=1)
    assert trim_offsets({0: named, 1: named}, {0: 50}) == {0: 50}


# --- an attempt's view --------------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("get"), st.lists(KEYS, max_size=4), st.none()),
        st.tuples(st.just("scan"), KEYS, st.one_of(st.none(), KEYS)),
        st.tuples(st.just("end"), st.none(), st.none()),
    ),
    max_size=30,
)


@given(st.dictionaries(KEYS, st.binary(max_size=5)), OPERATIONS, st.integers(0, 200))
def test_it_reads_as_a_sorted_map(rows, operations, inline_max):
    before = dict(rows)
    state = State(MemoryBase(rows), None, inline_bytes_max=inline_max, snapshot_changes_min=2)
    offset = 0
    for what, first, second in operations:
        if what == "put" and second is None:
            state.delete(first)
            before.pop(first, None)
        elif what == "put":
            state.put(first, second)
            before[first] = second
        elif what == "get":
            assert state.get_many(first) == [before.get(key) for key in first]
            assert [state.get(key) for key in first] == [before.get(key) for key in first]
        elif what == "scan":
            found = list(state.scan(first, second))
            assert found == sorted(
                (key, value)
                for key, value in before.items()
                if key >= first and (second is None or key < second)
            )
        else:
            list(state.end_entry(offset))
            offset += 1
    assert dict(state.scan()) == before


@given(st.dictionaries(KEYS, st.binary(max_size=5)), st.binary(max_size=2), KEYS, KEYS)
def test_a_view_is_the_part_with_its_prefix(rows, prefix, first, end):
    state = State(MemoryBase(rows), None, inline_bytes_max=SMALL)
    view = state.of(prefix[:1]).of(prefix[1:])
    mine = {key[len(prefix) :]: value for key, value in rows.items() if key.startswith(prefix)}
    assert dict(view.scan()) == mine
    assert list(view.scan()) == sorted(mine.items())
    assert list(view.scan(first, end)) == sorted(
        (key, value) for key, value in mine.items() if first <= key < end
    )
    assert view.get(first) == mine.get(first)
    view.put_many([first, end], [b"1", b"2"])
    assert view.get_many([first, end]) == [b"2" if first == end else b"1", b"2"]
    assert state.get(prefix + end) == b"2"
    view.delete(first)
    assert view.get(first) is None
    others = {key: value for key, value in rows.items() if not key.startswith(prefix)}
    assert {key: value for key, value in state.scan() if not key.startswith(prefix)} == others


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_the_successor_is_behind_all_that_begin_so(prefix, key):
    behind = successor(prefix)
    assert key.startswith(prefix) == (key >= prefix and (behind is None or key < behind))


def test_many_rows_are_scanned_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "PIECE_ROWS_MAX", 128)
    monkeypatch.setattr(states, "_READS_MAX", 10)
    rows = {b"%06d" % number: b"%d" % number for number in range(2000)}
    state = State(MemoryBase(rows), None, inline_bytes_max=0)
    expected = dict(rows)
    for number in range(0, 3000, 3):
        state.put(b"%06d" % number, b"new")
        expected[b"%06d" % number] = b"new"
    for number in range(1, 1500, 7):
        state.delete(b"%06d" % number)
        expected.pop(b"%06d" % number, None)
    assert state.get_many(sorted(rows)) == [expected.get(key) for key in sorted(rows)]
    messages = list(state.end_entry(0))
    assert dict(state.scan()) == expected
    assert list(state.scan(b"000999", b"002000")) == sorted(
        (key, value) for key, value in expected.items() if b"000999" <= key < b"002000"
    )
    base = MemoryBase.restored(messages, 1, state.committed())
    assert isinstance(base, MemoryBase)
    assert everything(base) == expected
