"""Rows that say which row they came of, and what takes each of them once.

A writer that may double rows (one that begins again at its last checkpoint, without a sequenced sink) puts one header
on each row: topic, topic id, partition and offset of the row that it came of, and its number among those that came of
that one row. Whoever reads them keeps a *mark* for each source partition, the largest (offset, number) so far, and
drops what is not beyond it. The marks are state, so they are those of the decided end: a replay drops the same rows.

Invariants
    A row is passed on once, however often it was written, as long as its writer keeps the order of a source partition
    within an output partition. So writers have to be idempotent, or have one request in flight: where a retry of row 5
    is stored behind row 6, row 5 is below the mark and would be lost.
    Only steps without state give such rows: what a window or a fold emits came of many.
    A topic that was made anew begins again at offset 0 and is another source: its id is a part of the mark.
    A row without lineage is bad: nobody knows whether it was there before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.pieces import BAD, HEADERS_TYPE, Entry, Indices, Origin, Piece, StateView, Step
from semel.core.flow.schema import Schema

LINEAGE_HEADER: Final = "semel-lineage"
SOURCES_MAX: Final = 65_536  # source partitions of one reader's partition
_SOURCE: Final = "[A-Za-z0-9._-]{1,249}(?:@[0-9a-f-]{36})?/[0-9]{1,10}"
_TEXT: Final = f"^(?P<source>{_SOURCE})/(?P<offset>[0-9]{{1,18}})/(?P<index>[0-9]{{1,18}})$"
_LINEAGE: Final = re.compile(
    r"([A-Za-z0-9._-]{1,249})(?:@([0-9a-f-]{36}))?/([0-9]{1,10})/([0-9]{1,18})/([0-9]{1,18})"
)
_PACK: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final = msgspec.msgpack.Decoder(tuple[int, int]).decode


@dataclass(frozen=True, slots=True)
class Lineage:
    """The row that a row came of. ``index`` counts those that came of the same one."""

    topic: str
    partition: int
    offset: int
    index: int = 0
    topic_id: UUID | None = None

    def header(self) -> tuple[str, bytes]:
        """As a record carries it."""
        return (
            LINEAGE_HEADER,
            f"{_source(self.topic, self.topic_id)}/{self.partition}/{self.offset}/{self.index}".encode(),
        )

    @classmethod
    def read(cls, value: bytes) -> Lineage | None:
        """From a header's value; ``None``: it is no lineage."""
        try:
            match = _LINEAGE.fullmatch(value.decode())
        except UnicodeDecodeError:
            return None
        if match is None:
            return None
        topic, topic_id, partition, offset, index = match.groups()
        try:
            of = None if topic_id is None else UUID(topic_id)
        except ValueError:
            return None
        return cls(topic, int(partition), int(offset), int(index), of)


def lineage_headers(origin: Origin, topic_id: UUID | None = None) -> pa.Array:
    """The headers of rows that came of ``origin``: the lineage, one for each row."""
    count = len(origin.offsets)
    indices = np.zeros(count, dtype=np.int64) if origin.indices is None else origin.indices
    values = pc.binary_join_element_wise(
        f"{_source(origin.topic, topic_id)}/{origin.partition}",
        pa.array(origin.offsets).cast(pa.string()),
        pa.array(indices).cast(pa.string()),
        "/",
    )
    pairs = pa.StructArray.from_arrays(
        [pa.repeat(LINEAGE_HEADER, count), values.cast(pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), pairs).cast(HEADERS_TYPE)


@dataclass(frozen=True)
class Dedupe:
    """Each row of ``inputs`` once, by its lineage; those of other inputs pass by."""

    inputs: tuple[int, ...] = (0,)
    name: str = "dedupe"

    is_stateful = True
    wants_columns = False

    def start(self) -> Step:
        return _Dedupe(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return schema

    def plan_parts(self) -> Mapping[str, Any]:
        return {"step": "dedupe", "by": "lineage", "inputs": list(self.inputs)}

    def state_parts(self) -> Mapping[str, Any]:
        return self.plan_parts()


class _Dedupe:
    """State: (input, source partition) to its mark."""

    def __init__(self, spec: Dedupe) -> None:
        self._spec = spec
        self._marks: dict[bytes, tuple[int, int] | None] = {}

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        inputs, state = self._spec.inputs, entry.own_state()
        return [self._once(piece, entry, state) if piece.input in inputs else piece for piece in pieces]

    def _once(self, piece: Piece, entry: Entry, state: StateView) -> Piece:
        sources, offsets, indices = lineages_of(piece.headers, len(piece))
        has_none = np.asarray(sources.is_null())
        if has_none.any():
            entry.emit_rows(
                BAD,
                self._spec.name,
                piece,
                np.flatnonzero(has_none),
                f"it has no header {LINEAGE_HEADER!r} that says which row it came of",
            )
        is_new = np.zeros(len(piece), dtype=np.bool_)
        encoded = sources.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for code, source in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            at = piece.input.to_bytes(2, "big") + source.encode()
            mark = self._mark(at, state)
            is_beyond, newest = beyond(offsets[rows], indices[rows], mark)
            is_new[rows] = is_beyond
            if newest != mark:
                state.put(at, _PACK(newest))
                self._marks[at] = newest
        return piece.take(np.flatnonzero(is_new))

    def _mark(self, at: bytes, state: StateView) -> tuple[int, int]:
        if at not in self._marks:
            if len(self._marks) >= SOURCES_MAX:
                raise ValueError(
                    f"rows have come of more than {SOURCES_MAX:,} source partitions, and a mark is kept for each"
                )
            stored = state.get(at)
            self._marks[at] = None if stored is None else _UNPACK(stored)
        return self._marks[at] or (-1, -1)


def beyond(offsets: Indices, indices: Indices, mark: tuple[int, int]) -> tuple[Any, tuple[int, int]]:
    """Which rows of one source are beyond the mark and all rows in front of them; and the mark behind them."""
    offsets, indices = np.append(mark[0], offsets), np.append(mark[1], indices)
    order = np.lexsort((indices, offsets))
    is_other = np.append(
        False, (offsets[order][1:] != offsets[order][:-1]) | (indices[order][1:] != indices[order][:-1])
    )
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(is_other)
    highest = np.maximum.accumulate(ranks)
    last = int(np.argmax(ranks))
    return ranks[1:] > highest[:-1], (int(offsets[last]), int(indices[last]))


def lineages_of(headers: pa.Array | None, count: int) -> tuple[pa.Array, Indices, Indices]:
    """The source partition of each row's last lineage, null where it has none; its offset and index."""
    values = pa.nulls(count, pa.binary())
    if headers is not None and count:
        pairs = headers.flatten()
        rows = headers.value_parent_indices()
        is_lineage = pc.equal(pairs.field("key"), LINEAGE_HEADER).fill_null(False)
        found, parents = pairs.field("value").filter(is_lineage), rows.filter(is_lineage)
        places = np.full(count, -1, dtype=np.int64)
        places[np.asarray(parents)] = np.arange(len(found))
        values = found.take(pa.array(places, mask=places < 0))
    texts = _as_text(values)
    sources, *numbers = pc.extract_regex(texts, _TEXT).flatten()  # null where it is no lineage
    offsets, indices = (
        number.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) for number in numbers
    )
    return sources, offsets, indices


def _as_text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # some value is no text
        return pa.array([None if _not_text(value) else value for value in values.to_pylist()]).cast(
            pa.string()
        )


def _not_text(value: bytes | None) -> bool:
    return value is None or not value.isascii()


def _source(topic: str, topic_id: UUID | None) -> str:
    return topic if topic_id is None else f"{topic}@{topic_id}"
