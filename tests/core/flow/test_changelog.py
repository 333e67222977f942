"""Messages of a changelog: exact to the byte, and refused where they cannot be this stage's state."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow import changelog
from semel.core.flow.changelog import (
    ChangelogRows,
    Kind,
    Meta,
    Restore,
    change_rows,
    joined,
    net_changes,
    snapshot_begin,
    snapshot_end,
    snapshot_rows,
)
from semel.core.sink.digest import NO_ROWS, Digest
from semel.core.sink.refusal import Refusal

META = Meta(False, 1, 20, 0)


def rows(*messages: tuple[bytes, bytes]) -> ChangelogRows:
    return ChangelogRows(
        pa.array([key for key, _ in messages], pa.binary()),
        pa.array([body for _, body in messages], pa.binary()),
    )


def message(entry: int, kind: int, body: bytes = b"", key: bytes = b"") -> tuple[bytes, bytes]:
    return key, entry.to_bytes(8, "big", signed=True) + bytes([kind]) + body


def snapshot(entry: int, before: Digest = NO_ROWS, **items: bytes) -> ChangelogRows:
    pairs = [(key.encode(), value) for key, value in items.items()]
    return joined([snapshot_begin(entry, before), *snapshot_rows(entry, pairs), snapshot_end(entry, META)])


def fed(*pieces: ChangelogRows, decided_end: int = 100) -> tuple[Restore, Refusal | None]:
    fold = Restore(decided_end)
    for piece in pieces:
        told = fold.feed(piece.keys, piece.values)
        if isinstance(told, Refusal):
            return fold, told
    return fold, None


def test_the_bytes_of_a_message() -> None:
    """Other releases will read them."""
    net = net_changes([b"b", b"a"], [None, b"new"], [b"old", None])
    (written,) = change_rows(258, net, Meta(False, 1, 20, 5))
    assert written.keys.to_pylist() == [b"a", b"b", b""]
    head = bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert written.values.to_pylist() == [
        head + b"\0new",
        head + b"\1",
        head + b"\4\1" + (1).to_bytes(8, "big") + (20).to_bytes(8, "big") + (5).to_bytes(8, "big"),
    ]
    (begin,) = snapshot_begin(258, Digest(1, 2, 3, 4, 5)).values.to_pylist()
    assert begin.hex() == "00000000000001020301000000000000000100000002000000030000000400000005"
    (row,) = snapshot_rows(258, [(b"k", b"v")])
    assert row.values.to_pylist() == [head + b"\2v"]


PAIRS = st.dictionaries(
    st.binary(max_size=4), st.tuples(*[st.one_of(st.none(), st.just(b""), st.binary(max_size=5))] * 2)
)


@given(PAIRS, st.integers(1, 40))
def test_net_changes_are_those_that_differ(pairs, piece_bytes):
    keys = list(pairs)
    values, before = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    expected = sorted((key, value) for key, (value, old) in pairs.items() if value != old)
    sizes = [
        sum(len(key) + len(value) + 16 for key, value in zip(keys, column, strict=True) if value is not None)
        for column in (values, before)
    ]
    with pytest.MonkeyPatch.context() as patch:
        for bytes_max in (piece_bytes, 2**20):
            patch.setattr(changelog, "PIECE_BYTES_MAX", bytes_max)
            net = net_changes(keys, values, before)
            found = [
                pair
                for key, value in net.pieces
                for pair in zip(key.to_pylist(), value.to_pylist(), strict=True)
            ]
            assert found == expected
            assert net.count == len(expected)
            assert net.keys_more == sum(value is not None for value in values) - sum(
                old is not None for old in before
            )
            assert net.bytes_more == sizes[0] - sizes[1]
            if expected:
                written = change_rows(7, net, META)
                assert all(len(each) for each in written)
                bodies = [body[9:] for body in joined(written).values.to_pylist()]
                assert bodies[:-1] == [value or b"" for _, value in expected]


def test_large_values_go_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "PIECE_BYTES_MAX", 100)
    items = [(b"%d" % number, b"x" * 90) for number in range(5)]
    assert [len(piece) for piece in snapshot_rows(0, items)] == [1] * 5


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "foreign",
    [(b"key", b""), (b"key", b"12345678"), message(3, 5, b"body"), message(3, 255)],
    ids=["empty", "too short", "unknown kind", "no kind"],
)
def test_a_record_that_is_no_message_is_no_state(foreign: tuple[bytes, bytes]) -> None:
    _, refusal = fed(snapshot(1, a=b"1"), rows(foreign))
    assert refusal is not None
    assert "no message of a state" in refusal.evidence


def test_a_null_is_no_message() -> None:
    fold = Restore(100)
    nulls = pa.array([None], pa.binary())
    assert isinstance(fold.feed(pa.array([b""], pa.binary()), nulls), Refusal)
    assert isinstance(Restore(100).feed(nulls, snapshot_begin(1, NO_ROWS).values), Refusal)


@pytest.mark.parametrize("pieces", [1, 2])
def test_entries_never_go_back(pieces: int) -> None:
    both = [snapshot(5, a=b"1"), snapshot(4, a=b"1")]
    _, refusal = fed(*(both if pieces == 2 else [joined(both)]))
    assert refusal is not None
    assert "in front of an earlier one's" in refusal.evidence


@pytest.mark.parametrize("kind", [Kind.SNAPSHOT_BEGIN, Kind.END])
def test_a_later_format_is_not_guessed_at(kind: Kind) -> None:
    written = snapshot(5, a=b"1")
    values = [
        body[:9] + b"\2" + body[10:] if body[8] == kind else body for body in written.values.to_pylist()
    ]
    _, refusal = fed(ChangelogRows(written.keys, pa.array(values, pa.binary())))
    assert refusal is not None
    assert "format 2" in refusal.evidence


@pytest.mark.parametrize("cut", [1, 2])
def test_a_snapshot_that_was_cut_is_none(cut: int) -> None:
    written = snapshot(5, a=b"1")
    part = ChangelogRows(written.keys[:cut], written.values[:cut])
    fold, refusal = fed(part)
    assert refusal is None
    digest = Digest().over(part.keys, part.values).mixed()  # even if its digest were the decided one
    assert isinstance(fold.finish(digest), Refusal)


def test_changes_without_a_snapshot_are_no_state() -> None:
    fold, refusal = fed(*change_rows(5, net_changes([b"a"], [b"1"], [None]), META))
    assert refusal is None
    assert isinstance(fold.finish(0), Refusal)


def test_what_comes_behind_the_decided_end_is_not_even_looked_at() -> None:
    fold, _ = fed(snapshot(5, a=b"1"), snapshot(6, a=b"2"), rows((b"", b"")), decided_end=6)
    assert fold.is_over
    first = snapshot(5, a=b"1")
    meta = fold.finish(Digest().over(first.keys, first.values).mixed())
    assert isinstance(meta, Meta)
