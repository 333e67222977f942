"""Tables in files as a side of an audit: a Delta table's folder, or Parquet files.

A row of a table is known by the place of the record that it came of, where the table has columns for it
(``_partition`` and ``_offset``, with several topics in it ``_topic``), or by columns of its own. A table has no order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel import landed
from semel.audit.adding import TopicReading, places
from semel.audit.columns import Columns, texts_of, with_lengths
from semel.audit.contents import PARTITION, Growth, TableShape, plain
from semel.audit.identity import NULL_FIELD, By, IdentityRule, IdentityUnreadable, KeyFrom, float_text
from semel.audit.report import TopicAudit
from semel.audit.sequences import SequenceCheck
from semel.audit.store import Rows, RowStore
from semel.core.land.columns import ERROR, OFFSET, TOPIC, VALUE
from semel.core.land.manifest import FOLDER as MANIFESTS
from semel.errors import ConfigError, SemelError
from semel.record.columnar import HEADERS_TYPE
from semel.record.json_values import exact_number

_KEYS: Final = ("_key", "key")  # a record's key, in the order in which it is looked for
_VALUE: Final = "value"
_HEADERS: Final = "headers"
_KINDS: Final = ("delta", "parquet")
_DELTA_LOG: Final = "_delta_log"
_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Opened:
    """A table's files; ``has_guesses``: nothing but folders' names says what the columns are that part it."""

    dataset: Any
    parted_by: tuple[str, ...] = ()
    has_guesses: bool = False


@dataclass(frozen=True)
class TableFiles:
    """A table; not read before it is asked."""

    kind: str
    path: Path

    @classmethod
    def named(cls, text: str) -> TableFiles | None:
        """``delta:PATH`` or ``parquet:PATH``; ``None``: it is the name of a topic, which has no colon."""
        kind, colon, path = text.partition(":")
        if not colon:
            return None
        if kind not in _KINDS or not path:
            raise ConfigError(f"{text!r} is neither a topic nor delta:PATH or parquet:PATH")
        if not Path(path).exists():
            raise ConfigError(f"{text}: there is nothing: a table is a folder or a file on this machine")
        if kind == "parquet" and (Path(path) / _DELTA_LOG).is_dir():
            raise ConfigError(f"{text} is a Delta table, of which not every file is a part: say delta:{path}")
        return cls(kind, Path(path))

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def _dataset(self) -> Any:
        return self._opened.dataset

    @cached_property
    def _opened(self) -> _Opened:
        if self.kind == "delta":
            try:
                from deltalake import DeltaTable
            except ImportError:
                raise SemelError(
                    "a Delta table is read with deltalake, which is not installed: pip install deltalake"
                ) from None
            from deltalake.exceptions import DeltaError

            try:
                table = DeltaTable(str(self.path))
                return _Opened(table.to_pyarrow_dataset(), tuple(table.metadata().partition_columns))
            except DeltaError as error:
                raise SemelError(f"{self.name} is not read: {error}") from None
        try:
            if (self.path / MANIFESTS).is_dir():
                by = landed.read_manifest(self.path).partition_by
                return _Opened(landed.dataset(self.path), () if by is None else (by,))
            return _unlisted(self.path)
        except (pa.ArrowException, OSError) as error:
            raise SemelError(f"{self.name} is not read: {error}") from None

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    @property
    def has_places(self) -> bool:
        """Whether its rows say which record each came of."""
        return {PARTITION, OFFSET} <= set(self.schema.names)

    @property
    def has_topic(self) -> bool:
        """Whether they say of which topic it was."""
        return TOPIC in self.schema.names

    @property
    def raw(self) -> str | None:
        """The column with the bytes of each record's value, where they were landed as they are."""
        names = self.schema.names
        own = [name for name in names if not name.startswith("_") and not self._is_headers(name)]
        if ERROR in names:  # values were read: a column ``value`` is a field of theirs
            return None
        found = VALUE if not own else own[0] if own == [_VALUE] else None
        is_bytes = found in names and _is_bytes(self.schema.field(found).type)
        return found if is_bytes else None

    def _is_headers(self, name: str) -> bool:
        """Whether it has the records' headers, which are no part of the value."""
        return name == _HEADERS and self.schema.field(name).type == HEADERS_TYPE

    @property
    def shape(self) -> TableShape:
        """What has to be known of it to say what of a record it has."""
        opened = self._opened
        partition_by = next(iter(opened.parted_by), None)
        return TableShape(
            self.schema, self.raw, partition_by, frozenset(opened.parted_by if opened.has_guesses else ())
        )

    def growth(self, columns: list[str], topic: str | None) -> Growth:
        """Where these of its columns begin, for it may have got some later than its first rows."""
        has_error, has_topic = ERROR in self.schema.names, self.has_topic and topic is not None
        read = [PARTITION, OFFSET, *[TOPIC] * has_topic, *[ERROR] * has_error, *columns]
        lacking: dict[str, dict[int, int]] = {}
        first: dict[str, dict[int, int]] = {name: {} for name in columns}
        has_good_rows = False
        for fragment in self._dataset.get_fragments():
            there = {*fragment.physical_schema.names, *self._opened.parted_by}
            for batch in fragment.to_batches(schema=self.schema, columns=read, batch_size=_BATCH_ROWS):
                rows = batch.filter(_is_of(batch, topic)) if has_topic else batch
                has_good_rows |= bool(len(rows) and (not has_error or rows.column(ERROR).null_count))
                for name in columns:
                    if name not in there:
                        _note(lacking.setdefault(name, {}), rows, max)
                    else:
                        _note(first[name], rows.filter(pc.is_valid(rows.column(name))), min)
        return Growth(lacking, first, has_good_rows)

    def row_count(self) -> int:
        return int(self._dataset.count_rows())

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """All rows, in the order in which the files have them; each time the same."""
        yield from self._dataset.to_batches(
            columns=columns, batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )

    def column(self, *names: str) -> str:
        """The first of these that it has."""
        for name in names:
            if name in self.schema.names:
                return name
        raise ConfigError(
            f"{self.name} has no column {' or '.join(map(repr, names))}: it has {', '.join(self.schema.names)}; "
            "say with --key or --key-from what names a row"
        )


def read_table(
    store: RowStore, files: TableFiles, reading: TopicReading, topic: str | None, progress: Any = None
) -> tuple[TopicAudit, Rows]:
    """Take all rows as if they were one partition; with ``topic`` those that came of it."""
    side = store.rows(files.name, reading.rows_max)
    texts_of = _Texts(files, reading)
    topics: set[str | None] = set()
    count = other_rows = unprovable_rows = 0
    for batch in files.batches(texts_of.columns):
        numbers = np.arange(count, count + len(batch), dtype=np.int64)
        count += len(batch)
        if texts_of.has_topic and topic is None and not reading.names_topic:
            topics |= set(batch.column(TOPIC).unique().to_pylist())
            _check_one(topics, files)
        elif texts_of.has_topic and topic is not None:
            is_of = _is_of(batch, topic)
            other_rows += len(batch) - int(is_of.true_count)
            numbers, batch = numbers[np.asarray(is_of)], batch.filter(is_of)
        texts = texts_of(batch)
        if texts.null_count:
            at = int(numbers[int(np.argmax(np.asarray(texts.is_null())))])
            raise IdentityUnreadable(f"{files.name} row {at + 1} has no identity: what names it is null")
        below_start = texts_of.below_start(batch)
        unprovable_rows += 0 if below_start is None else int(below_start.true_count)
        side.add(0, numbers, texts, contents=texts_of.contents(batch), below_start=below_start)
        if progress is not None:
            progress(len(batch))
    audit = TopicAudit(
        topic=files.name,
        partition_rows={0: count - other_rows},
        log_start_offsets={0: 0},
        end_offsets={0: count},
        sequences=SequenceCheck().verdict(),
        is_log=False,
        unit="row",
        other_rows=other_rows,
        unprovable_rows=unprovable_rows,
    )
    return audit, side


def _check_one(topics: set[str | None], files: TableFiles) -> None:
    """Rows of one place each: of two topics they would be taken for one record's."""
    if len(topics) > 1:
        raise SemelError(
            f"{files.name} has rows of several topics ({', '.join(sorted(map(str, topics))[:5])}), and the other side "
            "does not say of which its rows are: nothing is proven; say with --key or --key-from what names a row"
        )


def shown_rows(files: TableFiles, numbers: set[int], reading: TopicReading) -> dict[int, str]:
    """What names these rows, for a person."""
    texts_of = _Texts(files, reading)
    return {number: texts_of.shown(row) for number, row in rows_at(files, numbers, texts_of.columns)}


def rows_at(files: TableFiles, numbers: set[int], columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """These rows, each by itself."""
    count, left = 0, len(numbers)
    for batch in files.batches(columns):
        for number in sorted(each for each in numbers if count <= each < count + len(batch)):
            yield number, batch.slice(number - count, 1)
            left -= 1
        count += len(batch)
        if not left:
            break


def rows_of_places(
    files: TableFiles, wanted: set[tuple[int, int]], topic: str | None, columns: list[str]
) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    """The rows that came of these partitions and offsets, each by itself; with ``topic`` those of it."""
    has_topic = files.has_topic and topic is not None
    offsets = pa.array([offset for _, offset in wanted], pa.int64())
    for batch in files.batches(list(dict.fromkeys([PARTITION, OFFSET, *[TOPIC] * has_topic, *columns]))):
        rows = batch.filter(_is_of(batch, topic)) if has_topic else batch
        rows = rows.filter(pc.is_in(rows.column(OFFSET).cast(pa.int64()), offsets))
        for row in (rows.slice(number, 1) for number in range(len(rows))):
            if (place := place_of(row)) in wanted:
                yield place, row


def place_of(row: pa.RecordBatch) -> tuple[int, int]:
    """Of which partition and offset a row came."""
    return row.column(PARTITION)[0].as_py(), row.column(OFFSET)[0].as_py()


def _is_of(batch: pa.RecordBatch, topic: str | None) -> pa.Array:
    return pc.equal(batch.column(TOPIC).cast(pa.string()), topic).fill_null(False)


def _note(noted: dict[int, int], rows: pa.RecordBatch, choose: Any) -> None:
    """By partition the first or the last offset of these rows, and of those before."""
    if not len(rows):
        return
    partitions, offsets = (np.asarray(rows.column(n).cast(pa.int64())) for n in (PARTITION, OFFSET))
    for partition in np.unique(partitions).tolist():
        of_it = offsets[partitions == partition]
        found = int(of_it.min() if choose is min else of_it.max())
        noted[partition] = choose(noted.get(partition, found), found)


class _Texts:
    """What names the rows of a table, of whole columns."""

    def __init__(self, files: TableFiles, reading: TopicReading) -> None:
        self._by, self._rule, self._contents = reading.by, reading.identity, reading.contents
        self._log_start_offsets = reading.log_start_offsets
        self._names_topic = reading.names_topic
        self.has_topic = reading.by is By.PLACE and files.has_topic
        self._fields = _columns_of(files, reading.identity) if reading.by is By.CONTENT else []
        of_place = [PARTITION, OFFSET] + [TOPIC] * self.has_topic if reading.by is By.PLACE else []
        record = [] if reading.contents is None else reading.contents.columns.names
        self.columns = list(dict.fromkeys([*of_place, *(n.split(".")[0] for n in self._fields), *record]))

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        if self._by is By.PLACE:
            texts = places(batch.column(PARTITION), batch.column(OFFSET))
            if self._names_topic:  # behind the numbers, for there may be anything in it
                return pc.binary_join_element_wise(texts, batch.column(TOPIC).cast(pa.binary()), b"/")
            return texts
        if self._rule.key_from is not KeyFrom.VALUE_JSON:
            return _record_texts(texts_of(self._rule), self._fields, batch)
        if self._rule.as_bytes:
            return _as_bytes(batch, self._fields[0])
        return with_lengths([pc.fill_null(_as_text(batch, name), NULL_FIELD) for name in self._fields])

    def contents(self, batch: pa.RecordBatch) -> pa.Array | None:
        """What a row holds of the record that it came of."""
        if self._contents is None:
            return None
        return self._contents.texts(self._contents.of_rows(batch))

    def below_start(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows came of records that are gone, for their log begins behind them; ``None``: none did."""
        starts = self._log_start_offsets
        if self._by is not By.PLACE or not any(starts.values()):
            return None
        partitions, offsets = (np.asarray(batch.column(n).cast(pa.int64())) for n in (PARTITION, OFFSET))
        numbers, row = np.unique(partitions, return_inverse=True)
        return pa.array(offsets < np.array([starts.get(number, 0) for number in numbers.tolist()])[row])

    def shown(self, row: pa.RecordBatch) -> str:
        if self._by is By.PLACE:
            topic = f"{row.column(TOPIC)[0].as_py()}-" if self.has_topic else "partition "
            return f"of {topic}{row.column(PARTITION)[0].as_py()}@{row.column(OFFSET)[0].as_py()}"
        return ", ".join(f"{name} {_part(row, name)[0].as_py()!r}" for name in self._fields)


def _columns_of(files: TableFiles, rule: IdentityRule) -> list[str]:
    match rule.key_from:
        case KeyFrom.VALUE_JSON:
            for name in rule.fields:
                files.column(name.split(".")[0])
            return list(rule.fields)
        case KeyFrom.KEY:
            return [files.column(*_KEYS)]
        case KeyFrom.VALUE:
            return [files.raw or files.column(_VALUE)]
        case _:
            return [files.column(*_KEYS), files.raw or files.column(_VALUE)]


def _record_texts(of: Columns, columns: list[str], batch: pa.RecordBatch) -> pa.Array:
    found = [batch.column(name).cast(pa.binary()) for name in columns]
    return of(found[0], found[-1])  # of one alone the other is not looked at


def _unlisted(path: Path) -> _Opened:
    """Files of which no manifest says which are the table: all of them, with the columns of each and of hive's folders.

    A column that stands in the files as well is read there.
    """
    from pyarrow import dataset, fs

    base = path if path.is_dir() else path.parent
    files = [str(path)] if path.is_file() else _visible_files(path)
    if not files:
        raise FileNotFoundError("there are no files in it")

    def found(**folders: Any) -> pa.Schema:
        options = dataset.FileSystemFactoryOptions(partition_base_dir=str(base), **folders)
        factory = dataset.FileSystemDatasetFactory(
            fs.LocalFileSystem(), files, dataset.ParquetFileFormat(), options
        )
        return factory.inspect(promote_options="permissive")

    own = found()
    of_folders = [
        field
        for field in found(partitioning=dataset.HivePartitioning.discover())
        if field.name not in own.names
    ]
    found_all = dataset.dataset(
        files,
        schema=pa.schema([*own, *of_folders]),
        format="parquet",
        partitioning=dataset.partitioning(pa.schema(of_folders), flavor="hive") if of_folders else None,
        partition_base_dir=str(base),
    )
    return _Opened(found_all, tuple(field.name for field in of_folders), bool(of_folders))


def _visible_files(folder: Path) -> list[str]:
    """All but the hidden ones, as Spark and hive see them: a folder ``_day=…`` is one of a partition."""
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if not name.startswith(".") and ("=" in name or name[0] != "_")
        ]
        found += [str(Path(root) / name) for name in names if not name.startswith((".", "_"))]
    return sorted(found)


def _part(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    first, *path = name.split(".")
    try:
        return pc.struct_field(batch.column(first), path) if path else batch.column(first)
    except pa.ArrowInvalid:
        raise ConfigError(f"the column {first!r} has no field {'.'.join(path)!r}") from None


def _as_text(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column as the texts of JSON fields with its values: :func:`~semel.audit.identity.field_text` of each."""
    column = plain(_part(batch, name))
    if _is_bytes(column.type):
        return pc.binary_join_element_wise(b'"', column.cast(pa.binary()), b"")
    if pa.types.is_floating(column.type):
        return _each(float_text, column)
    if pa.types.is_decimal(column.type):
        return _each(lambda number: exact_number(str(number).encode()), column)
    return _as_bytes(batch, name)


def _as_bytes(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The same where it is held against a record's key, or value: what it is in JSON, without the quotes of a text."""
    column = plain(_part(batch, name))
    kind = column.type
    if _is_bytes(kind):
        return column.cast(pa.binary())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_floating(kind):
        return _each(lambda number: json.dumps(number).encode(), column)
    if pa.types.is_decimal(kind):
        return _each(lambda number: str(number).encode(), column)
    raise ConfigError(
        f"the column {name!r} is {kind}, which has no one text in JSON: name rows by text, numbers or booleans"
    )


def _each(text: Callable[[Any], bytes], column: pa.Array) -> pa.Array:
    return pa.array([None if each is None else text(each) for each in column.to_pylist()], pa.binary())


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
        )
    )
