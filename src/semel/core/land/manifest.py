"""The manifest of a folder of Parquet files: ``_semel/manifest-<number>.json``, the newest number being the table.

It has everything: the schema, the files, the marks of all jobs, and who committed it. A commit makes the next number,
by a create that fails where the number is taken. So the manifests are one line of commits, as Delta's log is.

Older ones are removed (the newest ``KEPT`` stay), so a copy that slept long could make a number anew that was
removed. Readers never see it, for the newest counts. Its maker looks whether there is a higher number
(:func:`is_newest`), and if so, whether that one has its commit: ``last`` names the last commit of each job, and
nobody else commits for a job while its epoch holds.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from semel.errors import ConfigError, StorageError

FORMAT: Final = 1
FOLDER: Final = "_semel"
KEPT: Final = 16
REPLACED_KEPT_MS: Final = (
    3_600_000  # a file that was compacted away stays so long, for who reads an older list
)
_NAME: Final = re.compile(r"manifest-(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table; ``path`` is relative to it. ``value`` is that of the partition column."""

    path: str
    rows: int
    size_bytes: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The table after one commit."""

    number: int
    schema: pa.Schema
    partition_by: str | None = None
    files: tuple[DataFile, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)  # who holds each job
    last: Mapping[str, str] = field(default_factory=dict)  # the last commit of each job
    replaced: Mapping[str, int] = field(default_factory=dict)  # files of no row any more, and since when

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(file.rows for file in self.files)

    def next(
        self,
        *,
        add: Iterable[DataFile] = (),
        remove: Iterable[str] = (),
        marks: Mapping[str, int] | None = None,
        owners: Mapping[str, str] | None = None,
        last: Mapping[str, str] | None = None,
        schema: pa.Schema | None = None,
        now_ms: int,
    ) -> Manifest:
        """With files added, and others taken out: they stay on the disk for ``REPLACED_KEPT_MS``."""
        gone = set(remove)
        held = {path: since for path, since in self.replaced.items() if not self._is_over(since, now_ms)}
        return replace(
            self,
            number=self.number + 1,
            schema=schema or self.schema,
            files=(*(file for file in self.files if file.path not in gone), *add),
            marks={**self.marks, **(marks or {})},
            owners={**self.owners, **(owners or {})},
            last={**self.last, **(last or {})},
            replaced=held | dict.fromkeys(sorted(gone), now_ms),
        )

    def over(self, now_ms: int) -> list[str]:
        """Files that were replaced long enough ago; the next manifest names them no more."""
        return [path for path, since in self.replaced.items() if self._is_over(since, now_ms)]

    @staticmethod
    def _is_over(since_ms: int, now_ms: int) -> bool:
        return now_ms - since_ms >= REPLACED_KEPT_MS


def manifest_name(number: int) -> str:
    """Its file's name."""
    return f"manifest-{number:020}.json"


def numbers_of(names: Iterable[str]) -> list[int]:
    """The manifests among the names of a folder's files, oldest first."""
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def is_newest(number: int, names: Iterable[str]) -> bool:
    """Whether the manifest that was made is the newest; else it is that of a copy that was overtaken."""
    return max(numbers_of(names), default=number) == number


def to_text(manifest: Manifest) -> str:
    """As it stands in its file. ``schema`` is for people, ``arrow_schema`` for :func:`from_text`."""
    document = {
        "format": FORMAT,
        "number": manifest.number,
        "schema": [{"name": each.name, "type": str(each.type)} for each in manifest.schema],
        "arrow_schema": base64.b64encode(manifest.schema.serialize().to_pybytes()).decode(),
        "partition_by": manifest.partition_by,
        "marks": dict(manifest.marks),
        "owners": dict(manifest.owners),
        "last": dict(manifest.last),
        "replaced": dict(manifest.replaced),
        "files": [
            {"path": file.path, "rows": file.rows, "bytes": file.size_bytes, "value": file.value}
            for file in manifest.files
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def from_text(text: str, name: str) -> Manifest:
    """:class:`StorageError` for what is none; :class:`ConfigError` for one of a later semel."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT:
            raise ConfigError(
                f"{name} has format {document['format']}, and this semel knows {FORMAT}: take a newer one"
            )
        return Manifest(
            document["number"],
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(document["arrow_schema"]))),
            document["partition_by"],
            tuple(
                DataFile(file["path"], file["rows"], file["bytes"], file["value"])
                for file in document["files"]
            ),
            document["marks"],
            document["owners"],
            document["last"],
            document["replaced"],
        )
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        if isinstance(error, ConfigError):
            raise
        raise StorageError(
            f"{name} is no manifest: {type(error).__name__}: {error}. It is never changed once it is written, so the "
            f"disk has damaged it, or somebody has; the one before it names all rows but those of its own commit"
        ) from None
