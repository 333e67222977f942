"""``semel land``: topics to a Delta table, or to Parquet files with a manifest, exactly once.

A table of Parquet files is read by what its newest manifest lists, never by what lies in the folder:
:func:`files_of` gives the paths, :func:`dataset` a dataset of pyarrow, :func:`read_manifest` all that the manifest has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.landed import dataset as dataset
    from semel.landed import files_of as files_of
    from semel.landed import read_manifest as read_manifest

__all__ = ["dataset", "files_of", "read_manifest"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from semel import landed

        return getattr(landed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
