"""Folds over the rows of a key: typed Python row by row, and Arrow tables once for each entry.

Invariants
    The state at the end of an entry is what its bytes say. Python objects live within an entry only: the next one
    begins with what is read back, so that an attempt that went through both, and one that began with the second,
    have the same state. (Within an attempt the decoded form is kept where the two cannot be told apart.)
    A state that cannot be read back as it was is refused at the entry that made it, before anything is stored.
    The same state has the same bytes: mappings are written in the order of their keys.
    No two keys share an object: each begins with an ``init`` of its own.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from semel.core.flow.functions import (
    Capture,
    Conform,
    holds_rows,
    name_of,
    shown,
    state_type_of,
    type_text,
)
from semel.core.flow.pieces import Entry, Piece, StateView, Step, keyed_for_state
from semel.core.flow.schema import Schema
from semel.core.flow.steps import function_parts
from semel.errors import StepFailed

KEYS_CACHED_MAX: Final = 200_000  # of a step in an attempt; beyond them it forgets them all and reads again
_UNCHANGING: Final = frozenset({int, float, str, bytes, bool})  # read back as they were, by their type


@dataclass(frozen=True)
class Fold:
    """``f(state, row) -> (state, rows)`` for each row, under the state of the row's key; state ``None`` deletes it.

    ``rows`` is a list, a tuple, an iterator, one row, or ``None``. ``init`` is the state of a key that has none.
    """

    f: Callable[[Any, Any], Any]
    init: Any = None
    schema: Schema | None = None
    state_type: Any = Any
    name: str = ""
    version: str = ""

    is_stateful = True
    wants_columns = False

    @classmethod
    def of(
        cls,
        f: Callable[[Any, Any], Any],
        init: Any = None,
        schema: Schema | None = None,
        *,
        name: str = "",
        version: str = "",
    ) -> Fold:
        """With its name, and the type of its state, as ``f``'s first parameter or ``init`` says."""
        return cls(f, init, schema, state_type_of(f, init), name or f"fold {name_of(f)}", version)

    def start(self) -> Step:
        return _Fold(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.schema

    def plan_parts(self) -> Mapping[str, Any]:
        parts = function_parts("fold", self.name, self.version, self.schema)
        return {**parts, "init": init_text(self.init), "state": type_text(self.state_type)}

    def state_parts(self) -> Mapping[str, Any]:
        return {"step": "fold", "state": type_text(self.state_type)}


class _Fold:
    def __init__(self, spec: Fold) -> None:
        self._spec = spec
        self._conform = Conform(spec.name, spec.schema)
        self._capture = Capture(spec.schema)
        self._states = StateForm(spec.name, spec.state_type, spec.init)
        self._stored: dict[bytes, bytes | None] = {}  # as of the last entry's end; None: the key has no state
        self._decoded: dict[bytes, Any] = {}  # of those, which cannot change under our hands

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        state = entry.own_state()
        live: dict[bytes, Any] = {}
        made = [self._fold(keyed_for_state(piece, entry, self._spec.name), live, state) for piece in pieces]
        self._keep(live, state)
        return made

    def _fold(self, piece: Piece, live: dict[bytes, Any], state: StateView) -> Piece:
        assert piece.keys is not None
        init = self._states.init
        f, capture, is_flat = self._spec.f, self._capture, self._spec.schema is not None
        rows, keys = piece.as_rows(), piece.keys.to_pylist()
        self._load(keys, live, state)
        made: list[Any] = []
        of: list[int] = []
        keep, keep_of = made.append, of.append
        number = 0
        try:
            for number, (key, row) in enumerate(zip(keys, rows, strict=True)):
                held = live[key]
                returned = f(init() if held is None else held, row)
                if type(returned) is not tuple or len(returned) != 2:
                    raise TypeError(f"it returned {shown(returned)}, and a fold returns (state, rows)")
                live[key], given = returned
                if given is None:
                    continue
                kind: type = type(given)
                if kind is dict and is_flat:  # most folds
                    keep(given.copy())
                    keep_of(number)
                elif holds_rows(kind):
                    for one in given:
                        keep(capture(one))
                        keep_of(number)
                else:
                    keep(capture(given))
                    keep_of(number)
        except Exception as error:
            raise StepFailed(self._spec.name, piece.place(number), error) from error
        made = self._conform.rows(made, lambda row: piece.place(of[row]))
        return piece.made(np.array(of, dtype=np.int64), self._spec.schema, rows=made)

    def _load(self, keys: list[bytes], live: dict[bytes, Any], state: StateView) -> None:
        """The states of all these keys, as of the end of the entry before, where this one has not met them yet."""
        missing = [key for key in dict.fromkeys(keys) if key not in live]
        unknown = [key for key in missing if key not in self._stored]
        self._stored.update(zip(unknown, state.get_many(unknown), strict=True))
        for key in missing:
            if key in self._decoded:
                live[key] = self._decoded[key]
                continue
            stored = self._stored[key]
            live[key] = None if stored is None else self._states.read(key, stored)

    def _keep(self, live: dict[bytes, Any], state: StateView) -> None:
        stored, decoded = self._stored, self._decoded
        changed: dict[bytes, bytes] = {}
        for key, held in live.items():
            before = stored[key]
            if held is None:
                decoded.pop(key, None)
                if before is not None:
                    state.delete(key)
                    stored[key] = None
                continue
            encoded, keeps = self._states.write(key, held)
            if keeps:
                decoded[key] = held
            else:
                decoded.pop(key, None)
            if encoded != before:
                changed[key] = encoded
        state.put_many(list(changed), list(changed.values()))
        stored.update(changed)
        if len(stored) > KEYS_CACHED_MAX:
            stored.clear()
            decoded.clear()


class StateForm:
    """A step's state as bytes and back, with what is wrong in words."""

    def __init__(self, step: str, state_type: Any, init: Any) -> None:
        self._step, self._type = step, state_type
        self._is_any = state_type is Any or state_type is object
        self._encode = msgspec.msgpack.Encoder(order="deterministic").encode
        self._decode = msgspec.msgpack.Decoder(Any if self._is_any else state_type).decode
        self._kept_kinds = (
            _UNCHANGING if self._is_any else _UNCHANGING & {state_type, *typing.get_args(state_type)}
        )
        self._init = init
        self._init_bytes: bytes | None = None
        if init is not None and type(init) not in _UNCHANGING:
            self._init_bytes = self.write(b"", init)[0]

    def init(self) -> Any:
        """A state of one's own to begin with."""
        return self._init if self._init_bytes is None else self._decode(self._init_bytes)

    def read(self, key: bytes, stored: bytes) -> Any:
        """What is stored; another type of state than it was written as is the step's fault."""
        try:
            return self._decode(stored)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StepFailed(
                self._step, key_text(key), f"its state is no {type_text(self._type)}: {error}"
            ) from error

    def write(self, key: bytes, held: Any) -> tuple[bytes, bool]:
        """Its bytes, and whether the object itself may be kept for them."""
        try:
            encoded = self._encode(held)
        except Exception as error:
            raise StepFailed(
                self._step, key_text(key), f"its state {shown(held)} cannot be stored: {error}"
            ) from error
        if type(held) in self._kept_kinds:
            return encoded, True
        try:
            read = self._decode(encoded)
        except Exception as error:
            raise StepFailed(
                self._step,
                key_text(key),
                f"its state {shown(held)} could not be read back as {type_text(self._type)}: {error}. Annotate the "
                f"first parameter of the fold with the type of its state",
            ) from error
        if self._is_any and (type(read) is not type(held) or read != held):
            raise StepFailed(
                self._step,
                key_text(key),
                f"its state {shown(held)} would be read back as {shown(read)}: annotate the first parameter of the "
                f"fold with the type of its state",
            )
        return encoded, False


def key_text(key: bytes) -> str:
    """A key in an error's text."""
    try:
        return f"key {shown(key.decode())}"
    except UnicodeDecodeError:
        return f"key {shown(key)}"


def init_text(init: Any) -> str:
    """A value of the plan as text, the same in every process."""
    try:
        return msgspec.json.encode(init, order="deterministic").decode()
    except Exception:
        return shown(init)
