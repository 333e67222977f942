"""Where an audit keeps what it has to know of each row, and none of its content: DuckDB, in a folder that goes with it.

Kept per row: its identity (128 bits), its place, a number for what it is ordered by (64 bits), and whether it has a
sequence. In memory is what ``memory_bytes_max`` allows, whatever the number of rows; the rest lies in the folder, at
most :data:`DISK_BYTES_PER_ROW` for each row of either side while they are compared.

An identity is MD5 over 16 secret bytes, drawn for each audit, and the identity's text; so is what a row holds beside
it. Of 10^9 rows two different ones
share one with probability 10^18 / 2^129 < 2·10^-21; the collisions that can be made of MD5 are no help to who writes
rows, for the secret is drawn later. Numbers for order are DuckDB's 64-bit hash: where two keys share one, order may be
found broken between them that nobody promised (10^9 keys: in about one of 37 audits), but none that is broken is
missed.

Invariant: each partition's rows are added in the order of their offsets.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.errors import SemelError

if TYPE_CHECKING:
    import duckdb

ROWS_MAX_DEFAULT: Final = 1_000_000_000
MEMORY_BYTES_DEFAULT: Final = 512 * 2**20
DISK_BYTES_PER_ROW: Final = 150
_MEMORY_A_THREAD: Final = 64 * 2**20  # more of them would only be in each other's way
_SECRET_BYTES: Final = 16
_SPAN_BITS: Final = 43  # of a place: offsets behind the first one read; above them the partition
_PARTITIONS_MAX: Final = 1 << 20
_CHUNK_ROWS: Final = 122_880  # DuckDB's row group
_CHUNK_BYTES: Final = 16 * 2**20

_COLUMNS: Final = pa.schema(
    [
        pa.field("text", pa.binary()),
        pa.field("place", pa.int64()),
        pa.field("order_text", pa.binary()),
        pa.field("content", pa.binary()),
        pa.field("number", pa.uint64()),
        pa.field("sequenced", pa.bool_()),
        pa.field("below_start", pa.bool_()),
    ]
)


class TooManyRows(SemelError):
    """The topic holds more rows than the audit was allowed to keep."""


class NoRoom(SemelError):
    """The audit needs more disk, or more memory, than it may have."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much an audit may take, and where."""

    memory_bytes_max: int = MEMORY_BYTES_DEFAULT  # of DuckDB; Python and two answers come beside it
    disk_bytes_max: int | None = None  # None: what is free
    folder: Path | None = None  # where its own folder is made; None: where the system keeps what is temporary


@dataclass(slots=True)
class RowStore:
    """One audit's database. A context manager: the folder is removed however it ends."""

    room: Room = field(default_factory=Room)
    _own: tempfile.TemporaryDirectory[str] = field(init=False)
    _database: duckdb.DuckDBPyConnection = field(init=False)
    _secret: bytes = field(init=False, default_factory=lambda: secrets.token_bytes(_SECRET_BYTES))
    _beside: ThreadPoolExecutor = field(init=False, default_factory=lambda: ThreadPoolExecutor(1))
    _inserting: Future[None] | None = None
    _table_count: int = 0

    def __post_init__(self) -> None:
        import duckdb

        if self.room.folder is not None and not self.room.folder.is_dir():
            raise SemelError(f"--scratch {self.room.folder} is no folder: nothing was read")
        try:
            self._own = tempfile.TemporaryDirectory(prefix="semel-audit-", dir=self.room.folder)
        except OSError as error:
            raise NoRoom(
                f"no folder can be made in {self.room.folder or tempfile.gettempdir()}: {error.strerror}"
            ) from None
        settings: dict[str, Any] = {
            "memory_limit": f"{self.room.memory_bytes_max}B",
            "temp_directory": str(Path(self._own.name) / "spilled"),
            "preserve_insertion_order": "false",
            "threads": str(max(1, min(os.cpu_count() or 1, self.room.memory_bytes_max // _MEMORY_A_THREAD))),
            "autoinstall_known_extensions": "false",
        }
        if self.room.disk_bytes_max is not None:
            settings["max_temp_directory_size"] = f"{self.room.disk_bytes_max // 2}B"  # the rest is the rows'
        with self._telling():
            self._database = duckdb.connect(str(Path(self._own.name) / "rows.duckdb"), config=settings)
            self._database.execute("SET enable_progress_bar = false")
            self._database.execute("PRAGMA disable_checkpoint_on_shutdown")  # nobody opens it again
            self._database.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything, on the disk too."""
        self._beside.shutdown()
        self._database.close()
        self._own.cleanup()

    def rows(self, name: str, rows_max: int = ROWS_MAX_DEFAULT) -> Rows:
        """A new side, without rows."""
        table = self.new_table("rows")
        self.run(
            f"CREATE TABLE {table} (identity UHUGEINT, place BIGINT, order_key UBIGINT, content UHUGEINT, "
            "number UBIGINT, sequenced BOOLEAN, below_start BOOLEAN)"
        )
        return Rows(self, table, name, rows_max)

    def new_table(self, kind: str) -> str:
        """A name that no other table has."""
        self._table_count += 1
        return f"{kind}_{self._table_count}"

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """One statement and what it gives, which has to be little."""
        self._wait()
        with self._telling():
            found = self._database.execute(statement, values).fetchall()
        self._check_size()
        return found

    def one(self, query: str, values: Sequence[object] = ()) -> int:
        """The one number that a query gives."""
        return int(self.run(query, values)[0][0])

    def settle(self) -> None:
        """Write out what was added: before the rows are compared."""
        self._wait()
        with self._telling():
            self._database.commit()
            self._database.begin()

    def insert(self, table: str, chunk: pa.Table) -> None:
        """Rows of :data:`_COLUMNS`; they go in while the caller decodes the next ones."""
        self._wait()
        self._inserting = self._beside.submit(self._insert, table, chunk)

    def _insert(self, table: str, chunk: pa.Table) -> None:
        with self._telling():
            # DuckDB finds ``chunk`` by its name here; one that is registered would be kept until the commit.
            self._database.execute(
                f"INSERT INTO {table} SELECT md5_number(?::BLOB || text), place, "
                "CASE WHEN order_text IS NOT NULL THEN hash(order_text) END, md5_number(?::BLOB || content), number, "
                "sequenced, coalesce(below_start, false) FROM chunk",
                [self._secret, self._secret],
            )
        self._check_size()

    def _wait(self) -> None:
        """For the rows that are going in: the database does one thing at a time."""
        inserting, self._inserting = self._inserting, None
        if inserting is not None:
            inserting.result()

    def _check_size(self) -> None:
        if self.room.disk_bytes_max is None:
            return
        used = sum(path.stat().st_size for path in Path(self._own.name).glob("rows.duckdb*"))
        if used > self.room.disk_bytes_max // 2:
            raise self._no_room(f"{used // 2**20} MiB are written")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Room that is lacking, as an error that says what to do."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            text = str(error)
            if "max_temp_directory_size" in text or "temp directory" in text.lower():
                raise self._no_room("what does not fit in memory found no room there") from None
            raise NoRoom(
                f"the audit needs more than {self.room.memory_bytes_max // 2**20} MiB of memory: nothing is proven; "
                "raise --memory-max"
            ) from None
        except (duckdb.IOException, duckdb.FatalException) as error:
            if "No space left" in str(error):
                raise self._no_room("the disk is full") from None
            raise

    def _no_room(self, why: str) -> NoRoom:
        bound = (
            ""
            if self.room.disk_bytes_max is None
            else f" (--disk-max allows {self.room.disk_bytes_max // 2**20} MiB)"
        )
        return NoRoom(
            f"no room for the audit in {self._own.name}{bound}: {why}. Nothing is proven; it takes up to "
            f"{DISK_BYTES_PER_ROW} bytes a row of input and output: name a folder with room by --scratch"
        )


@dataclass(slots=True)
class Rows:
    """One side's rows: those of a topic, a file or a table."""

    store: RowStore
    table: str
    name: str
    rows_max: int = ROWS_MAX_DEFAULT
    _row_count: int = 0
    _first_offsets: dict[int, int] = field(default_factory=dict)
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _waiting_bytes: int = 0

    def __len__(self) -> int:
        return self._row_count

    def add(
        self,
        partition: int,
        offsets: NDArray[np.int64],
        texts: pa.Array,
        order_texts: pa.Array | None = None,
        *,
        sequenced: bool = True,
        contents: pa.Array | None = None,
        numbers: pa.Array | None = None,
        below_start: pa.Array | None = None,
    ) -> None:
        """Rows of a partition: their identities' texts, and what each is ordered by (null: no order was promised).

        ``contents``: what a row of this identity has to hold beside it; ``numbers``: which it is of those that came of
        one row; ``below_start``: whether that one is gone, for its log begins behind it (null: no).
        """
        count = len(offsets)
        if not count:
            return
        self._row_count += count
        if self._row_count > self.rows_max:
            raise TooManyRows(
                f"topic {self.name!r} has more than {self.rows_max} rows, which need "
                f"{self.rows_max * DISK_BYTES_PER_ROW // 2**20} MiB of disk: raise --rows-max if the room is there"
            )
        first = self._first_offsets.setdefault(partition, int(offsets[0]))
        if partition >= _PARTITIONS_MAX or int(offsets[-1]) - first >= 1 << _SPAN_BITS:
            raise TooManyRows(
                f"{self.name} partition {partition} offset {int(offsets[-1])} is more than an audit can number"
            )
        places = pa.array((offsets - first) + (partition << _SPAN_BITS), pa.int64())
        are_sequenced = pa.repeat(pa.scalar(sequenced), count)
        columns = [texts, places, order_texts, contents, numbers, are_sequenced, below_start]
        chunk = pa.table(
            [
                pa.nulls(count, field.type) if column is None else column
                for column, field in zip(columns, _COLUMNS, strict=True)
            ],
            schema=_COLUMNS,
        )
        self._waiting.append(chunk)
        self._waiting_rows += count
        self._waiting_bytes += chunk.nbytes
        if self._waiting_rows >= _CHUNK_ROWS or self._waiting_bytes >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand on what waits; before anything is asked."""
        if self._waiting:
            self.store.insert(self.table, pa.concat_tables(self._waiting))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def place(self, partition: int, offset: int) -> int:
        """The place of an offset; below all of the partition's rows where it lies before the first one."""
        return (partition << _SPAN_BITS) + max(0, offset - self._first_offsets.get(partition, offset))

    def at(self, place: int) -> tuple[int, int]:
        """The partition and offset that a place stands for."""
        partition, behind = place >> _SPAN_BITS, place & ((1 << _SPAN_BITS) - 1)
        return partition, self._first_offsets[partition] + behind


PARTITION_SQL: Final = "({} >> " + str(_SPAN_BITS) + ")"  # of a place
