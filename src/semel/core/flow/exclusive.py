"""Exclusive producer: one identity writes what one input partition gives, and counts its own rows to know how far.

The cheapest pattern there is: no decision log, no state, one identity for each input partition. Each step makes one
row of each, so the number of rows that stand in the output under the identity says how many rows of the input are
done.

Why rows are counted, and not offsets read: a fence marker, or any control record, takes an offset too. An output whose
log end is 7 may hold five rows; a reader of offsets would skip two rows of the input. So the *data rows of its own
identity* are counted, whatever lies between them.

Why the input must have no gaps: the row number n is the row at offset ``start + n`` only where each offset is a row. A
compacted topic, one with control records (transactions, fences of others), or one that a sequenced sink writes has
gaps, and more may come: refused. So is a step that leaves rows out, or makes several. That there are no gaps is read
off the input (:func:`first_gap`), also for the part that is passed over.

Rows for several output partitions arrive there in the input's order each, but not all up to the same row: partition 0
may hold rows 0 and 2 while row 1, for partition 1, was still under way. Their sum says nothing of where to go on. Then
the input is read again from its start, and in each output partition as many rows are passed over as stand there.

Before the rows are counted, the identity has to be fenced, or a predecessor that is still writing makes the count old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from semel.core.flow.pieces import Indices, StepSpec
from semel.core.flow.steps import Map, OnInputs


class WhyNot(Enum):
    """Why an input cannot be gone through by counting rows."""

    GAPS = "the input has offsets without rows"
    TRIMMED = "the beginning of the input is gone"
    NOT_ONE_TO_ONE = "a step does not make one row of each"
    OUTPUT_TRIMMED = "rows of the output are gone, and cannot be counted"
    OTHER_INPUT = "more rows stand in the output than the input has"


@dataclass(frozen=True, slots=True)
class NotExclusive:
    """A refusal, with its evidence; nothing was written."""

    why: WhyNot
    evidence: str


@dataclass(frozen=True, slots=True)
class InputPartition:
    """What is known of the input before a row of it is taken."""

    name: str  # as an error calls it
    start_offset: int  # where this identity began, by its plan
    log_start_offset: int  # what retention has left
    end_offset: int  # the last stable offset
    is_compacted: bool = False


@dataclass(slots=True)
class Continues:
    """Read the input from ``offset`` on, and take what :meth:`take` says."""

    offset: int
    # Offsets that are passed over: to be held against :func:`first_gap` before the first row goes.
    unproven: range
    # Rows that each output partition has, still to come by.
    left_over: dict[int, int] = field(default_factory=dict)

    def take(self, partitions: Sequence[int] | Indices) -> npt.NDArray[np.bool_]:
        """Which of the next rows, for these output partitions, are not stored yet."""
        wanted = np.ones(len(partitions), dtype=np.bool_)
        if not self.left_over:
            return wanted
        numbers = np.asarray(partitions)
        for partition in list(self.left_over):
            mine = np.flatnonzero(numbers == partition)[: self.left_over[partition]]
            wanted[mine] = False
            self.left_over[partition] -= len(mine)
            if not self.left_over[partition]:
                del self.left_over[partition]
        return wanted


def continues(
    read: InputPartition,
    stored: Mapping[int, int],
    output_partition_count: int,
    steps: Sequence[StepSpec] = (),
    *,
    trimmed_partitions: Sequence[int] = (),
) -> Continues | NotExclusive:
    """Where to go on, given the rows of the identity in each output partition, counted after it was fenced.

    ``trimmed_partitions`` are those of the output that have lost rows since the identity began.
    """
    for step in steps:
        if not isinstance(step.step if isinstance(step, OnInputs) else step, Map):
            return NotExclusive(
                WhyNot.NOT_ONE_TO_ONE,
                f"step {step.name!r} does not make one row of each, so the rows in the output do not say how many rows "
                f"of {read.name} are done",
            )
    if read.is_compacted:
        return NotExclusive(
            WhyNot.GAPS,
            f"{read.name} is compacted: rows are taken out of it, so that offsets do not count rows",
        )
    if trimmed_partitions:
        return NotExclusive(
            WhyNot.OUTPUT_TRIMMED,
            f"output partition {min(trimmed_partitions)} has lost rows to retention or a trim: nobody can count how "
            f"many rows of {read.name} were done, and they would come twice",
        )
    count = sum(stored.values())
    if count > read.end_offset - read.start_offset:
        return NotExclusive(
            WhyNot.OTHER_INPUT,
            f"{count} rows stand in the output, and {read.name} has {max(0, read.end_offset - read.start_offset)} from "
            f"offset {read.start_offset} on: this identity wrote another input, or that one was made anew",
        )
    is_single = output_partition_count == 1
    offset = read.start_offset + count if is_single else read.start_offset
    if read.log_start_offset > read.start_offset:
        return NotExclusive(
            WhyNot.TRIMMED,
            f"{read.name} begins at offset {read.log_start_offset}, and its rows from offset {read.start_offset} on "
            f"are needed to know which of them are done",
        )
    left_over = {} if is_single else {partition: rows for partition, rows in stored.items() if rows}
    return Continues(offset, range(read.start_offset, offset), left_over)


def first_gap(read: InputPartition, expected_offset: int, offsets: Indices) -> NotExclusive | None:
    """Held against every fetch: each offset has to be a row."""
    wanted = np.arange(expected_offset, expected_offset + len(offsets), dtype=np.int64)
    wrong = np.flatnonzero(offsets != wanted)
    if not len(wrong):
        return None
    missing = int(wanted[wrong[0]])
    return NotExclusive(
        WhyNot.GAPS,
        f"offset {missing} of {read.name} is no row, but a marker, or was compacted away: rows cannot be counted by "
        f"offsets there. Read it through a sequenced sink",
    )
