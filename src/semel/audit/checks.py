"""Is every input row in the output exactly once, and in order? Decided over two row indexes; pure.

The k-th row of an identity in the output stands for its k-th row in the input, so an input that itself holds
a row twice is proven to arrive twice. Findings are values: how many, and the first few by partition and
offset, which is where a person looks next.

Checks (one name, one meaning):
``missing``     in the input more often than in the output
``duplicated``  in the output more often than in the input, which has it
``extra``       in the output, but not in the input at all
``out_of_order``  a row stands before one of its order key that came earlier in the same input partition
``scattered``   rows of one order key stand in several output partitions, so that no order can be promised

Without an input, and without a name that a row must be the only one to have, equal rows prove nothing: whoever
sends "hello" twice finds it there twice. Sequences tell them apart: a log that stores each sequence once (which
is another check's, :mod:`~semel.audit.sequences`) has stored each of these sends once. Equal rows without a
sequence may be one send that was stored twice, or two:
``undecided``   rows without a sequence that equal an earlier one without a sequence
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.audit.rows import RowIndex

EXAMPLES_MAX_DEFAULT: Final = 10
COPIES_MAX: Final = 5  # of one row, that a finding names
CHECKS: Final = ("missing", "duplicated", "extra", "out_of_order", "scattered")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands; ``in_input`` tells which of the two topics."""

    in_input: bool
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated check: on how many rows, and the first of them."""

    check: str
    row_count: int
    examples: tuple[Place, ...]
    # Of an example that stands more than once: where, the first ``COPIES_MAX``, itself among them or behind them.
    copies: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the two topics hold, and every check that failed."""

    input_rows: int
    output_rows: int
    matched_rows: int
    input_repeated_rows: int  # rows beyond the first of their identity: legitimate, but worth knowing
    order_keys: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """What one topic alone can prove: that no identity occurs twice, or that each send is there once."""

    rows: int
    findings: tuple[Finding, ...]
    repeated_rows: int = 0  # rows that equal an earlier one, and are told apart by their sequences
    doubts: tuple[Finding, ...] = ()  # what cannot be decided from this topic alone


def compare(
    source: RowIndex,
    output: RowIndex,
    *,
    examples_max: int = EXAMPLES_MAX_DEFAULT,
    order: bool = True,
    subset: bool = False,
) -> Comparison:
    """Hold the output against the input. About 100 bytes a row while it runs.

    ``subset``: the output may lack rows of the input; it may hold none of them more often than the input does.
    """
    source_codes, output_codes, code_count = _codes(source, output)
    source_count = np.bincount(source_codes, minlength=code_count)
    output_count = np.bincount(output_codes, minlength=code_count)
    source_rank = _occurrence(source_codes)
    output_rank = _occurrence(output_codes)

    missing = source_rank >= output_count[source_codes]
    unmatched = output_rank >= source_count[output_codes]
    extra = unmatched & (source_count[output_codes] == 0)
    duplicated = unmatched & ~extra
    findings = [
        _finding("missing", source, missing, examples_max, in_input=True),
        _finding("duplicated", output, duplicated, examples_max, codes=output_codes),
        _finding("extra", output, extra, examples_max),
    ]
    if subset:
        findings[0] = None
    if order:
        twin = _input_row_of(source_codes, source_rank, output_codes, output_rank, ~unmatched)
        findings += _order_findings(source, output, twin, examples_max)
    return Comparison(
        input_rows=len(source),
        output_rows=len(output),
        matched_rows=int(np.count_nonzero(~unmatched)),
        input_repeated_rows=int(np.count_nonzero(source_rank)),
        order_keys=len(np.unique(source.order_key[source.order_key != 0])) if order else 0,
        findings=tuple(finding for finding in findings if finding is not None),
    )


def unique(rows: RowIndex, *, examples_max: int = EXAMPLES_MAX_DEFAULT, named: bool = True) -> Uniqueness:
    """Without an input to hold it against: rows whose identity occurred before.

    ``named``: identities are names that no two rows may share. Otherwise equal rows are two sends wherever their
    sequences say so.
    """
    codes = _codes(rows, None)[1]
    again = _occurrence(codes) > 0
    if named:
        finding = _finding("duplicated", rows, again, examples_max, codes=codes)
        return Uniqueness(len(rows), () if finding is None else (finding,))
    undecided = np.zeros(len(rows), dtype=np.bool_)
    undecided[~rows.sequenced] = _occurrence(codes[~rows.sequenced]) > 0
    doubt = _finding("undecided", rows, undecided, examples_max, codes=codes)
    return Uniqueness(
        len(rows),
        (),
        repeated_rows=int(np.count_nonzero(again & ~undecided)),
        doubts=() if doubt is None else (doubt,),
    )


def _codes(a: RowIndex, b: RowIndex | None) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Small numbers for identities, the same for both sides; one side only gives it as both."""
    both = a.identities if b is None else pa.concat_arrays([a.identities, b.identities])
    encoded = both.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return codes[: len(a)], codes if b is None else codes[len(a) :], len(encoded.dictionary)


def _occurrence(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each row, how many rows of the same code stand before it."""
    order = np.argsort(codes, kind="stable")
    grouped = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]])) if len(codes) else order
    position = np.arange(len(codes))
    run_start = np.repeat(starts, np.diff(np.append(starts, len(codes))))
    occurrence = np.empty(len(codes), dtype=np.int64)
    occurrence[order] = position - run_start
    return occurrence


def _input_row_of(
    source_codes: NDArray[np.int32],
    source_rank: NDArray[np.int64],
    output_codes: NDArray[np.int32],
    output_rank: NDArray[np.int64],
    matched: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """For each output row the number of the input row it stands for, -1 for none."""
    order = np.lexsort((source_rank, source_codes))
    first = np.searchsorted(source_codes[order], output_codes)
    twin = np.full(len(output_codes), -1, dtype=np.int64)
    twin[matched] = order[(first + output_rank)[matched]]
    return twin


def _order_findings(
    source: RowIndex, output: RowIndex, twin: NDArray[np.int64], examples_max: int
) -> list[Finding | None]:
    """Per order key and input partition: output partitions must be one, input offsets must rise."""
    rows = np.flatnonzero(twin >= 0)
    rows = rows[source.order_key[twin[rows]] != 0]  # rows without an order key were promised no order
    key, from_partition = source.order_key[twin[rows]], source.partition[twin[rows]]
    order = np.lexsort((rows, from_partition, key))  # output rows stand in (partition, offset) order already
    rows, key, from_partition = rows[order], key[order], from_partition[order]
    same_group = (key[1:] == key[:-1]) & (from_partition[1:] == from_partition[:-1])
    same_partition = output.partition[rows][1:] == output.partition[rows][:-1]
    sooner = source.offset[twin[rows]][1:] < source.offset[twin[rows]][:-1]

    def flagged(where: NDArray[np.bool_]) -> NDArray[np.bool_]:
        flags = np.zeros(len(output), dtype=np.bool_)
        flags[rows[1:][where]] = True
        return flags

    return [
        _finding("out_of_order", output, flagged(same_group & same_partition & sooner), examples_max),
        _finding("scattered", output, flagged(same_group & ~same_partition), examples_max),
    ]


def _finding(
    check: str,
    rows: RowIndex,
    flags: NDArray[np.bool_],
    examples_max: int,
    *,
    in_input: bool = False,
    codes: NDArray[np.int32] | None = None,
) -> Finding | None:
    """``codes`` of the rows, where the copies of an example are to be named."""
    where = np.flatnonzero(flags)
    if not len(where):
        return None

    def place(row: int) -> Place:
        return Place(in_input, int(rows.partition[row]), int(rows.offset[row]))

    shown = [int(row) for row in where[:examples_max]]
    copies = {} if codes is None else {place(row): copied for row, copied in _copies(codes, shown, place)}
    return Finding(check, len(where), tuple(map(place, shown)), copies)


def _copies(
    codes: NDArray[np.int32], rows: list[int], place: Callable[[int], Place]
) -> Iterator[tuple[int, tuple[Place, ...]]]:
    """For each of these rows, where the first rows of its code stand."""
    order = np.argsort(codes, kind="stable")
    grouped = codes[order]
    for row in rows:
        first, end = np.searchsorted(grouped, [codes[row], codes[row] + 1])
        yield row, tuple(place(int(copy)) for copy in order[first : min(end, first + COPIES_MAX)])
