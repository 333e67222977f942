"""Files with flows: Python sources whose top-level variables are flows.

A file is run as a module of its own, under a name that no other module has, with its folder first on the path as
Python's own scripts have it. It is not ``__main__``: what stands under ``if __name__ == "__main__"`` is not run. Its
functions are in no module that another process could import, so who sends them somewhere sends them by value
(:attr:`FlowFile.module`).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from semel.errors import ConfigError, SemelError
from semel.flow.asserts import FAIL_NAME, failed, rewritten
from semel.flow.value import Flow

_MODULE_PREFIX: Final = "semel_flow_"


@dataclass(frozen=True, slots=True)
class FlowFile:
    """What a file holds."""

    path: Path
    module: ModuleType
    flows: Mapping[str, Flow]  # by their names

    def flow(self, name: str | None = None) -> Flow:
        """The flow of this name, or of this variable; without one, the only one there is.

        :class:`~semel.errors.ConfigError` where it is not there, or where there are several to choose from.
        """
        names = sorted(self.flows)
        if name is None:
            if len(names) > 1:
                raise ConfigError(
                    f"{self.path} has {len(names)} flows: say --name, one of {', '.join(names)}"
                )
            return self.flows[names[0]]
        found = self.flows.get(name, vars(self.module).get(name))
        if not isinstance(found, Flow):
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
            raise ConfigError(f"{self.path} has no flow {name!r}: {hint}")
        return found


def load_flows(path: Path) -> FlowFile:
    """Run the file, and find its flows.

    :class:`~semel.errors.ConfigError`: there is no such file, or no flow in it; :class:`~semel.errors.FlowError`: a
    step makes no sense; :class:`~semel.errors.SemelError`: the file itself fails, with the line.
    """
    module = load_module(path)
    flows: dict[str, Flow] = {}
    for variable, value in vars(module).items():
        if not isinstance(value, Flow) or variable.startswith("_"):
            continue
        other = flows.setdefault(value.name, value)
        if other is not value:
            raise ConfigError(
                f"{path} has two flows called {value.name!r}, written at {other.site} and {value.site}: give one of "
                f'them another name with .named("...")'
            )
    if not flows:
        raise ConfigError(
            f'{path} has no flow: a flow is a top-level variable, as in visits = stream.to("visits")'
        )
    return FlowFile(path, module, flows)


def load_module(path: Path, *, shows_asserts: bool = False) -> ModuleType:
    """Run the file; errors as of :func:`load_flows`. ``shows_asserts``: a failed ``assert`` says what it compared."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}: semel flow init {path} writes one to begin with")
    resolved = path.resolve()
    name = f"{_MODULE_PREFIX}{hashlib.sha256(str(resolved).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_loader(name, None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    folder = str(resolved.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module  # classes ask there for what their annotations mean
    try:
        source: Any = path.read_bytes()
        if shows_asserts:
            source = rewritten(source, str(path))
            vars(module)[FAIL_NAME] = failed
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))
    except SemelError:
        raise
    except SyntaxError as error:
        raise SemelError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        raise SemelError(f"{_place(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _place(error: Exception, path: Path) -> str:
    """The last line of the file itself on the way to the error."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f"{path}:{lines[-1]}" if lines else str(path)
