"""What a consumer may see, against a plain reading of the rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.visible import visible_batches
from semel.record.batch import Record, assign_offsets, decode_header, encode_batch
from semel.record.control import encode_abort_marker, encode_commit_marker

# What one producer writes next: rows outside of a transaction, rows inside, or the end of one.
steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["plain", "in", "commit", "abort"]), st.integers(1, 3)),
    max_size=25,
)


@given(steps, st.integers(0, 60), st.integers(0, 30))
def test_rows_of_aborted_transactions_and_control_batches_are_never_shown(
    history: list[tuple[int, str, int]], from_offset: int, cut_bytes: int
) -> None:
    log: list[tuple[bytearray, bool]] = []  # the batch, and whether it is to be seen
    open_since: dict[int, tuple[int, list[int]]] = {}  # producer: first offset, places in the log
    aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker
    offset = 0
    for producer_id, kind, count in history:
        if kind in ("commit", "abort"):
            if producer_id not in open_since:
                continue
            first_offset, places = open_since.pop(producer_id)
            encode = encode_abort_marker if kind == "abort" else encode_commit_marker
            batch, rows, is_seen = bytearray(encode(producer_id, 0, 0, 0)), 1, False
            if kind == "abort":
                aborted.append((producer_id, first_offset, offset))
                for place in places:
                    log[place] = (log[place][0], False)
        else:
            in_transaction = kind == "in"
            if not in_transaction and producer_id in open_since:
                continue
            batch, rows, is_seen = (
                encode_batch(
                    [Record(0, 0, None, b"x")] * count,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                    transactional=in_transaction,
                ),
                count,
                True,
            )
            if in_transaction:
                open_since.setdefault(producer_id, (offset, []))[1].append(len(log))
        assign_offsets(memoryview(batch), offset, 0)
        log.append((batch, is_seen))
        offset += rows
    stable = min((first for first, _ in open_since.values()), default=offset)
    answered = [(batch, seen) for batch, seen in log if decode_header(batch).base_offset < stable]
    answered = [(batch, seen) for batch, seen in answered if decode_header(batch).last_offset >= from_offset]
    overlapping = [
        (producer_id, first)
        for producer_id, first, marker in aborted
        if answered and first <= decode_header(answered[-1][0]).last_offset and marker >= from_offset
    ]
    whole = b"".join(batch for batch, _ in answered)
    found = visible_batches(memoryview(whole + bytes(cut_bytes)), from_offset, overlapping)
    assert [bytes(batch) for batch in found.batches] == [bytes(batch) for batch, seen in answered if seen]
    last = decode_header(answered[-1][0]).last_offset + 1 if answered else from_offset
    assert found.next_offset == last
