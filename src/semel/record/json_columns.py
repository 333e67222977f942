"""How deep JSON is nested, of a column of values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.record.json_values import NESTING_MAX, depth


def too_deep(values: pa.Array) -> list[int]:
    """The binary values with more brackets in one another than that, closed or not; few are looked at one by one."""
    starts = starts_of(values)
    letters = np.frombuffer(values.buffers()[2] or b"", np.uint8)[starts[0] : starts[-1]]
    opening = np.flatnonzero((letters == ord("{")) | (letters == ord("["))) + starts[0]
    counts = np.diff(np.searchsorted(opening, starts))
    return [
        index
        for index in np.flatnonzero(counts > NESTING_MAX).tolist()
        if depth(values[index].as_py() or b"") > NESTING_MAX
    ]


def starts_of(values: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value begins in the buffer, and where the last one ends."""
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[values.offset : values.offset + len(values) + 1]
