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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.audit.rows import RowIndex

EXAMPLES_MAX_DEFAULT: Final = 10
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
    """What one topic alone can prove: that no identity occurs twice."""

    rows: int
    findings: tuple[Finding, ...]


def compare(
    source: RowIndex, output: RowIndex, *, examples_max: int = EXAMPLES_MAX_DEFAULT, order: bool = True
) -> Comparison:
    """Hold the output against the input. About 100 bytes a row while it runs."""
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
        _finding("duplicated", output, duplicated, examples_max),
        _finding("extra", output, extra, examples_max),
    ]
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


def unique(rows: RowIndex, *, examples_max: int = EXAMPLES_MAX_DEFAULT) -> Uniqueness:
    """Without an input to hold it against: rows whose identity occurred before."""
    again = _occurrence(_codes(rows, None)[1]) > 0
    finding = _finding("duplicated", rows, again, examples_max)
    return Uniqueness(len(rows), () if finding is None else (finding,))


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
    check: str, rows: RowIndex, flags: NDArray[np.bool_], examples_max: int, *, in_input: bool = False
) -> Finding | None:
    where = np.flatnonzero(flags)
    if not len(where):
        return None
    examples = tuple(
        Place(in_input, int(rows.partition[row]), int(rows.offset[row])) for row in where[:examples_max]
    )
    return Finding(check, len(where), examples)
