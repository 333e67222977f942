"""Pandas once somebody asks for it, and not with Arrow's first array.

Pyarrow imports pandas, where it is installed, to tell its arrays from others: more than a quarter of what a small test
of a flow takes, which mostly has none. Here the first look finds none, and whoever imports pandas afterwards, or asks
pyarrow for it (``to_pandas()``), has pyarrow look again: from then on all is as it would be.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_PANDAS: Final = "pandas"


def import_pandas_later() -> None:
    """To be called before pyarrow has made an array, or it changes nothing."""
    if _PANDAS in sys.modules:
        return
    import pyarrow as pa

    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(absent)
    if _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _Awaited())


class _Absent(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError("it is not asked for yet", name=name)


class _Awaited(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name != _PANDAS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)
        return spec


class _Telling(Loader):
    """Loads pandas as its own loader does, and tells pyarrow."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        import pyarrow as pa

        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        pa.table({}).to_pandas()
