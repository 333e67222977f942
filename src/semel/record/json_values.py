"""One JSON value, read by one rule wherever it is read: by flows and land, by conditions, and by what names a row.

msgspec is the reader. A value is JSON if it is one RFC 8259 text, at most ``NESTING_MAX`` deep: no NaN, no infinity, no
comments, no byte order mark, no UTF-16, no half of a surrogate pair, nothing behind it. Of a doubled key the last one
counts, as for Spark's ``from_json``. A field that nobody asks for is not looked at beyond that; one that is asked for
has to be UTF-8, with all that is in it. Numbers are handed on as they are written: what a column, SQL or an identity
makes of them is said there.

Invariant: what is JSON depends neither on the caller's stack nor on the SQLite of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from semel.errors import SemelError

NESTING_MAX: Final = 128  # objects and arrays in one another; far below where any interpreter gives up
SHALLOW_LENGTH: Final = 2 * NESTING_MAX  # what is no longer is no deeper, for each bracket has to be closed
NO_UTF_8: Final = "a text in it is no UTF-8"
TOO_DEEP: Final = f"it is nested more than {NESTING_MAX} deep"
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)

_JSON_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # to the end, where it is not closed
_NUMBER: Final = re.compile(rb"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
_ODD_NAME: Final = re.compile(r'[\x00-\x1f"\\]')  # that msgspec takes for no field's name
_ODD_NUMBER: Final = re.compile(rb"-0|\d{60}")  # that are not written as they were read, or not at all
_PLAIN_DIGITS_MAX: Final = 64  # of a whole number that is written out; a longer one has an exponent
_EXPONENT_DIGITS_MAX: Final = 18

Document = bytes | str
Step = str | int  # the name of a member, or the index of an element; below 0 it counts from the end


class NotJson(SemelError):
    """What is read as JSON is none, or has no text where one is asked for; says why."""


# --- whether it is JSON -------------------------------------------------------------------------------------


def checked(document: Document) -> Document:
    """The document, if all of it is JSON; :class:`NotJson` says why it is none."""
    shallow(document)
    _check(document)
    return document


def _check(document: Document) -> None:
    try:
        _ANY.decode(document)
    except msgspec.DecodeError as error:
        raise NotJson(_why(error)) from None


def shallow(document: Document) -> Document:
    """The document, if it is not nested too deep; nothing else is judged."""
    if len(document) <= SHALLOW_LENGTH:
        return document
    if isinstance(document, str):
        if document.count("{") + document.count("[") > NESTING_MAX:
            shallow(document.encode())
    elif document.count(b"{") + document.count(b"[") > NESTING_MAX and depth(document) > NESTING_MAX:
        raise NotJson(TOO_DEEP)
    return document


def depth(document: bytes) -> int:
    """How deep objects and arrays are in one another."""
    import numpy as np  # of few values alone, and the command line wants to know no numpy

    letters = np.frombuffer(_JSON_TEXT.sub(b"", document), np.uint8)
    opening = (letters == ord("{")) | (letters == ord("["))
    closing = (letters == ord("}")) | (letters == ord("]"))
    return int(np.cumsum(opening.astype(np.int64) - closing).max(initial=0))


# --- what stands in it --------------------------------------------------------------------------------------


def found(document: Document, path: tuple[Step, ...]) -> bytes | None:
    """What stands at ``path``, as it is written; ``None`` if there is nothing. :class:`NotJson` if it is no JSON."""
    return finder(path)(document)


@lru_cache(maxsize=1_024)
def finder(path: tuple[Step, ...]) -> Callable[[Document], bytes | None]:
    """:func:`found` of one path, for many documents."""
    if not path:
        return _whole
    finders = [_finder(step) for step in path]

    def find(document: Document) -> bytes | None:
        at: Any = document
        if len(document) > SHALLOW_LENGTH:
            shallow(document)
        for find_step in finders:
            try:
                at = find_step(at)
            except msgspec.ValidationError:  # it has no members, or no elements: if it is JSON at all
                _check(at)
                return None
            except UNREADABLE as error:
                raise NotJson(_why(error)) from None
            if at is None:
                return None
        return bytes(at)

    return find


def _whole(document: Document) -> bytes:
    checked(document)
    return (document.encode() if isinstance(document, str) else document).strip()


@lru_cache(maxsize=1_024)
def _finder(step: Step) -> Callable[[Document], msgspec.Raw | None]:
    if isinstance(step, int):
        return partial(_element, step)
    if _ODD_NAME.search(step):
        return lambda document: _OBJECT.decode(document).get(step)
    shape = msgspec.defstruct("Member", [("raw", msgspec.Raw, msgspec.field(default=None, name=step))])
    decode = msgspec.json.Decoder(shape).decode
    return lambda document: decode(document).raw  # type: ignore[attr-defined]


def _element(index: int, document: Document) -> msgspec.Raw | None:
    elements = _ARRAY.decode(document)
    return elements[index] if -len(elements) <= index < len(elements) else None


_ANY: Final = msgspec.json.Decoder(msgspec.Raw)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)


def text_in(raw: bytes) -> str:
    """What a JSON string says."""
    try:
        return _TEXT.decode(raw)
    except UNREADABLE as error:
        raise NotJson(_why(error)) from None


def elements_in(raw: bytes) -> list[bytes]:
    """The elements of a JSON array, as they are written."""
    return [bytes(each) for each in _ARRAY.decode(raw)]


def as_written(raw: bytes, *, sort: bool = False) -> bytes:
    """A value without white space, texts as msgspec writes them, of a doubled key the last; numbers as they came.

    ``sort``: members by their names, else as they came.
    """
    return _compact(raw, bytes, sort)


def exact(raw: bytes) -> bytes:
    """The one text of a value: members by their names, numbers by :func:`exact_number`; equal only for equal values."""
    return _compact(raw, exact_number, True)


def _compact(raw: bytes, number: Callable[[bytes], bytes], sort: bool) -> bytes:
    """By msgspec alone where it can: fractions are handed on as texts, and whole numbers are short ones."""
    first = raw[:1]
    if first == b'"':
        return msgspec.json.encode(text_in(raw))
    if first not in (b"[", b"{"):
        return raw if first in b"tfn" else number(raw)
    if _ODD_NUMBER.search(raw) is None:
        try:
            return _ENCODERS[sort].encode(_tree_decoder(number).decode(raw))
        except msgspec.DecodeError:
            pass
        except UnicodeDecodeError as error:
            raise NotJson(_why(error)) from None
    if first == b"[":
        return b"[" + b",".join([_compact(each, number, sort) for each in elements_in(raw)]) + b"]"
    try:
        members = _OBJECT.decode(raw)
    except UNREADABLE as error:
        raise NotJson(_why(error)) from None
    pairs = [
        msgspec.json.encode(name) + b":" + _compact(bytes(members[name]), number, sort)
        for name in (sorted(members) if sort else members)
    ]
    return b"{" + b",".join(pairs) + b"}"


@lru_cache(maxsize=2)
def _tree_decoder(number: Callable[[bytes], bytes]) -> Any:
    return msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(number(text.encode())))


_ENCODERS: Final = {False: msgspec.json.Encoder(), True: msgspec.json.Encoder(order="sorted")}


def exact_number(raw: bytes) -> bytes:
    """The one text of a number, however it was written: of ``1``, ``1.0`` and ``1e0`` it is ``1``, and of no other.

    Of more than 64 digits it has an exponent; nothing is rounded, and ``-0`` is ``0``.
    """
    if len(raw) <= _PLAIN_DIGITS_MAX and (
        raw.isdigit() or (raw[-1] != 0x30 and raw.count(b".") == 1 and raw.replace(b".", b"").isdigit())
    ):
        return raw
    parts = _NUMBER.fullmatch(raw)
    assert parts is not None, raw
    sign, whole, fraction, exponent = parts.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    if not significant:
        return b"0"
    power = exponent.lstrip(b"+-0") or b"0"
    if len(power) > _EXPONENT_DIGITS_MAX:
        raise NotJson(f"it has a number with an exponent of {len(exponent)} digits")
    signed = -int(power) if exponent.startswith(b"-") else int(power)
    scale = signed - len(fraction) + len(digits) - len(significant)
    if not -_PLAIN_DIGITS_MAX <= scale <= _PLAIN_DIGITS_MAX - len(significant):
        return b"%b%be%d" % (sign, significant, scale)
    if scale >= 0:
        return sign + significant + b"0" * scale
    padded = significant.rjust(1 - scale, b"0")
    return sign + padded[:scale] + b"." + padded[scale:]


def _why(error: Exception) -> str:
    """In words of our own where a flow stores the like of them; msgspec's say where."""
    if isinstance(error, UnicodeDecodeError):
        return NO_UTF_8
    return str(error) or "it is no JSON"
