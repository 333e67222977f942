"""What goes to Spark's processes of a flow: values of the plan, with the user's functions and classes in them.

Those processes cannot import the file that a flow is written in, nor what lies beside it: such functions and classes
go by value, those of installed packages by name. A stage becomes bytes once, in the driver, before anything is fenced
or written; a process that works on it reads them once. So a class of the user's is one class in that process, whatever
comes to it of it later.

Three things that pickling by value cannot do are done here. A class that msgspec has read rows into keeps what msgspec
knows of it, which no pickle takes; a ``Struct`` cannot be made empty and filled later; and annotations that are text
name what stood in the module, which the other process does not have.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import io
import pickle
import re
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark import cloudpickle as _cloudpickle

from semel.errors import FlowError

cloudpickle: Any = _cloudpickle  # untyped

_KEPT_BY_MSGSPEC: Final = "__msgspec_cache__"
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_STRUCT_OPTIONS: Final = frozenset(
    """frozen eq order array_like gc repr_omit_defaults omit_defaults forbid_unknown_fields weakref dict cache_hash tag
    tag_field""".split()  # noqa: SIM905
)
_OF_STRUCTS: Final = frozenset(
    "__annotations__ __dict__ __weakref__ __module__ __qualname__ __match_args__ __slots__".split()  # noqa: SIM905
)
_ADVICE: Final = (
    "Spark's workers run it in processes of their own: let it make such a thing when it is called, "
    "or keep plain values"
)


@dataclass(frozen=True, slots=True)
class Shipped:
    """A value of the plan, on its way to other processes."""

    data: bytes

    @property
    def value(self) -> Any:
        """In the process that works with it."""
        return _opened(self.data)


def shipped(value: Any, steps: Iterable[Any] = (), where: str = "") -> Shipped:
    """``FlowError`` for the first of ``steps`` that cannot be sent."""
    functions = [function for step in steps if (function := function_of(step)) is not None]
    with by_value(functions):
        try:
            return Shipped(_dumps_with_names(value))
        except Exception as error:
            for step in steps:
                function = function_of(step)
                if function is not None and (why := _why_not(step)) is not None:
                    raise _refusal(step, function, why, where) from error
            raise


@contextlib.contextmanager
def by_value(functions: Iterable[Callable[..., Any]]) -> Iterator[None]:
    """Within it, what is pickled of the modules of ``functions``, and of what lies beside them, goes by value."""
    modules = _users_modules(functions)
    known = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    for module in modules:
        for value in list(vars(module).values()):
            _forget_what_msgspec_keeps(value)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def function_of(step: Any) -> Callable[..., Any] | None:
    """The user's function of a step, if it has one."""
    step = getattr(step, "step", step)
    found: Callable[..., Any] | None = getattr(step, "f", None) or getattr(step, "function", None)
    return found


# --- which modules ------------------------------------------------------------------------------------------


def _users_modules(functions: Iterable[Callable[..., Any]]) -> list[types.ModuleType]:
    """Those of the functions, and all that were imported from their folders; none that is installed."""
    own = {module.__name__: module for function in functions if (module := _module_of(function)) is not None}
    folders = [Path(file).resolve().parent for module in own.values() if (file := module.__file__)]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in own or not isinstance(file, str) or not _is_users(name, file):
            continue
        if any(Path(file).resolve().is_relative_to(folder) for folder in folders):
            own[name] = module
    return list(own.values())


def _module_of(function: Any) -> types.ModuleType | None:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or not _is_users(module.__name__, file):
        return None
    return module


def _is_users(name: str, file: str) -> bool:
    # cloudpickle takes the last by value itself.
    if name.split(".", 1)[0] in ("semel", "pyspark_semel", "__main__"):
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _installed())


@functools.cache
def _installed() -> tuple[Path, ...]:
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({Path(folder).resolve() for folder in folders if folder})


# --- there --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _opened(data: bytes) -> Any:
    names, value = pickle.loads(data)
    for module_name, found in names.items():
        if module_name not in sys.modules:
            sys.modules[module_name] = _StandIn(module_name)
        module = sys.modules[module_name]
        if isinstance(module, _StandIn):
            vars(module).update(found)
    return value


class _StandIn(types.ModuleType):
    """For a module that was not sent: it has the names that annotations use; for any other it is imported at last."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _dumps_with_names(value: Any) -> bytes:
    """The value, and what the annotations of its classes name: in one pickle, so that a class is one class."""
    names: dict[str, dict[str, Any]] = {}
    while True:
        data, kinds = _dumped((names, value))
        found = _names_in_annotations(kinds)
        if found.keys() == names.keys() and all(
            found[module].keys() == names[module].keys() for module in found
        ):
            return data
        names = found  # they bring more classes, maybe, whose annotations have names, too


def _names_in_annotations(kinds: Iterable[type]) -> dict[str, dict[str, Any]]:
    """By module: what its classes' annotations name, where those are text."""
    found: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        space = vars(sys.modules.get(kind.__module__, kind))
        for hint in vars(kind).get("__annotations__", {}).values():
            words = _NAME.findall(hint) if isinstance(hint, str) else ()
            names = {word: space[word] for word in words if word in space}
            if names:
                found.setdefault(kind.__module__, {}).update(names)
    return found


# --- classes that msgspec knows -------------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.kinds: list[type] = []  # that went by value

    def reducer_override(self, obj: Any) -> Any:
        _forget_what_msgspec_keeps(obj)
        if isinstance(obj, type) and not cloudpickle.cloudpickle._should_pickle_by_reference(obj):
            self.kinds.append(obj)
            if isinstance(obj, msgspec.StructMeta):
                return _reduced_struct(obj)
        return super().reducer_override(obj)


def _dumped(value: Any) -> tuple[bytes, list[type]]:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(value)
    return buffer.getvalue(), pickler.kinds


def _forget_what_msgspec_keeps(value: Any) -> None:
    """It finds it out again when it is asked."""
    if isinstance(value, type) and _KEPT_BY_MSGSPEC in vars(value):
        delattr(value, _KEPT_BY_MSGSPEC)


def _reduced_struct(kind: Any) -> Any:
    """Fields first, for those make the class; methods behind it, for they may name it."""
    own = dict(vars(kind).get("__annotations__", {}))
    parameters = inspect.signature(kind).parameters
    options: dict[str, Any] = {name: getattr(kind.__struct_config__, name) for name in _STRUCT_OPTIONS}
    options["kw_only"] = any(
        parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in own if name in parameters
    )
    options["rename"] = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    defaults: dict[str, Any] = {}
    count = len(kind.__struct_defaults__)
    for name, default in zip(
        kind.__struct_fields__[-count:] if count else (), kind.__struct_defaults__, strict=True
    ):
        if name not in own or default is msgspec.NODEFAULT:
            continue
        factory = getattr(default, "factory", None) if type(default).__module__ == "msgspec._core" else None
        defaults[name] = (factory is not None, default if factory is None else factory)
    rest = {
        name: value
        for name, value in vars(kind).items()
        if name not in _OF_STRUCTS
        and not name.startswith("__struct_")
        and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
    }
    made = (kind.__name__, kind.__qualname__, kind.__module__, kind.__bases__, own, defaults, options)
    return _made_struct, made, rest, None, None, _with_rest


def _made_struct(
    name: str,
    qualname: str,
    module: str,
    bases: tuple[type, ...],
    annotations: dict[str, Any],
    defaults: dict[str, tuple[bool, Any]],
    options: dict[str, Any],
) -> Any:
    space: dict[str, Any] = {"__module__": module, "__qualname__": qualname, "__annotations__": annotations}
    for field, (is_factory, default) in defaults.items():
        space[field] = (
            msgspec.field(default_factory=default) if is_factory else msgspec.field(default=default)
        )
    return msgspec.StructMeta(name, bases, space, **options)


def _with_rest(kind: Any, rest: dict[str, Any]) -> Any:
    for name, value in rest.items():
        with contextlib.suppress(AttributeError, TypeError):  # what every Struct has
            setattr(kind, name, value)
    return kind


# --- what cannot go -------------------------------------------------------------------------------------------


def _why_not(value: Any) -> str | None:
    try:
        _dumped(value)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _refusal(step: Any, function: Callable[..., Any], why: str, where: str) -> FlowError:
    """With the name that holds what cannot be sent, where it can be told."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        where = f"{code.co_filename}:{code.co_firstlineno}"
    what = "it"
    with contextlib.suppress(Exception):
        used = inspect.getclosurevars(function)
        held = {**used.nonlocals, **used.globals}
        what = next(
            (f"{name!r}, which it uses," for name, each in held.items() if _why_not(each) is not None), what
        )
    return FlowError(
        step.name,
        where,
        f"its function cannot be sent to Spark's workers: {what} cannot be pickled ({why})",
        _ADVICE,
    )
