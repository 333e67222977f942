r"""The record template of ``-f``, in kcat's letters; compiled once, rendered for every record. Pure.

``%k`` key, ``%v`` (or ``%s``) value, ``%o`` offset, ``%p`` partition, ``%t`` topic, ``%T`` timestamp in ms,
``%h`` headers as ``a=b,c=d``, ``%K`` and ``%S`` key and value length (-1 for null), ``%%`` a percent sign;
``\n``, ``\t``, ``\r``, ``\0``, ``\\`` and ``\xNN`` as in C.

Keys, values and headers are bytes and go out unchanged; a null is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from semel.errors import ConfigError

DEFAULT_TEMPLATE: Final = r"%v\n"


class TemplateRecord(Protocol):
    """What a record must offer to be rendered."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Render = Callable[[TemplateRecord], bytes]

_TOKEN = re.compile(r"%(?P<field>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)|[^%\\]+", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _headers(record: TemplateRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_FIELDS: Final[dict[str, Render]] = {
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "o": lambda record: b"%d" % record.offset,
    "p": lambda record: b"%d" % record.partition,
    "t": lambda record: record.topic.encode(),
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
    "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
}


def compile_template(template: str) -> Render:
    """Turn a template into a function from record to bytes; :class:`ConfigError` for an unknown letter."""
    pieces: list[bytes | Render] = []
    for token in _TOKEN.finditer(template):
        if token["field"] is not None:
            pieces.append(b"%" if token["field"] == "%" else _field(token["field"]))
        elif token["hex"] is not None:
            pieces.append(bytes.fromhex(token["hex"]))
        elif token["escape"] is not None:
            pieces.append(_escape(token["escape"]))
        else:
            pieces.append(token[0].encode(errors="surrogateescape"))  # as the shell gave it
    plan = tuple(pieces)

    def render(record: TemplateRecord) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in plan])

    return render


def _field(letter: str) -> Render:
    try:
        return _FIELDS[letter]
    except KeyError:
        known = " ".join(f"%{known}" for known in _FIELDS)
        raise ConfigError(f"%{letter} is not a field of a record template: use {known} or %%") from None


def _escape(letter: str) -> bytes:
    try:
        return _ESCAPES[letter]
    except KeyError:
        raise ConfigError(
            f"\\{letter} is not an escape of a record template: use \\n \\t \\r \\0 \\\\ or \\xNN"
        ) from None
