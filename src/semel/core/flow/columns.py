"""A column: Python values to Arrow and back, and its JSON texts, exactly and without a call a value.

Types are strict, as in JSON: a ``str`` is no number, a ``bool`` no integer, a ``datetime`` no date; an ``int`` is also
a ``double``. numpy's scalars and derived classes are what they hold. Times without a zone are UTC, and all are brought
to UTC; a 32-bit float is the nearest one. What does not fit is a :class:`NotOfSchema` that says where: nothing is cut
off to make it fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter, countOf
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.schema import Kind

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS: Final = (  # of the years 1 to 9999, as a datetime has them
    (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // _MICROSECOND,
    (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH) // _MICROSECOND,
)
_DAYS: Final = tuple((day - EPOCH.date()).days for day in (date.min, date.max))
_QUOTES_AND_LINES: Final = b'"\n'
_TIMES: Final = msgspec.msgpack.Decoder(list[datetime])
_PACKED_TIME: Final = np.dtype([("head", "S3"), ("nanoseconds", ">u4"), ("seconds", ">i8")])
_PACKED_TIME_HEAD: Final = b"\xc7\x0c\xff"  # msgpack's longest form of an instant
_SHOWN_MAX: Final = 60
_zone_of: Final = attrgetter("tzinfo")


class NotOfSchema(ValueError):
    """A row or a value that is not of its schema, or cannot be JSON: which, and why. Nothing was made of the rows."""

    def __init__(self, why: str, *, index: int | None = None, column: str | None = None) -> None:
        self.why, self.index, self.column = why, index, column
        where = [f"row {index}"] if index is not None else []
        where += [f"column {column!r}"] if column is not None else []
        super().__init__(": ".join([", ".join(where), why]) if where else why)


def shown(value: Any) -> str:
    """``value`` for an error's text, shortened."""
    text = repr(value)
    shortened = text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."
    return f"{shortened} ({type(value).__name__})"


# --- one value ------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A scalar of numpy's, or of a class derived from a plain one, as the plain one; ``TypeError`` for what is none."""
    if isinstance(value, np.bool_ | np.integer | np.floating | np.str_ | np.bytes_):
        value = value.item()
    match value:
        case bool() | None:
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime() if not getattr(value, "nanosecond", 0):
            return datetime.combine(
                date(value.year, value.month, value.day),
                value.time(),
                value.tzinfo,
            ).replace(fold=value.fold)
        case date() if not isinstance(value, datetime):
            return date(value.year, value.month, value.day)
    raise TypeError(f"{shown(value)} is no value that JSON knows")


ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=plain)


def settled(kind: Kind, value: Any) -> Any:
    """``value`` as a row has it, or :class:`NotOfSchema`."""
    try:
        exact = plain(value)
    except (TypeError, ValueError):
        raise NotOfSchema(f"{shown(value)} is no {kind.value}") from None
    match exact:
        case None:
            return None
        case bool() if kind is not Kind.BOOLEAN:
            pass
        case int() if kind in (Kind.LONG, Kind.INT):
            bits = 64 if kind is Kind.LONG else 32
            if -(2 ** (bits - 1)) <= exact < 2 ** (bits - 1):
                return exact
            raise NotOfSchema(f"{shown(value)} is out of {bits} bits")
        case int() | float() if kind in (Kind.DOUBLE, Kind.FLOAT):
            return nearest(kind, exact)
        case datetime() if kind is Kind.TIMESTAMP:
            return in_utc(exact)
        case str() if kind is Kind.STRING and not _is_text(exact):
            raise NotOfSchema(f"{shown(value)} has half a surrogate pair, which is no character")
        case _ if type(exact) is kind.python:
            return exact
    raise NotOfSchema(f"{shown(value)} is no {kind.value}")


def in_utc(time: datetime) -> datetime:
    """The same instant in UTC; without a zone it is UTC already."""
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise NotOfSchema(f"{time.isoformat()} is in UTC outside of the years 1 to 9999") from None


def of_seconds(seconds: int) -> datetime:
    """The instant so many seconds after 1970."""
    if not _MICROSECONDS[0] <= seconds * 1_000_000 <= _MICROSECONDS[1]:
        raise NotOfSchema(f"{shown(seconds)} seconds after 1970 is outside of the years 1 to 9999")
    return EPOCH + timedelta(seconds=seconds)


def nearest(kind: Kind, number: float) -> float:
    """The nearest 64-bit or 32-bit float; infinity is itself, but nothing else becomes it."""
    try:
        number = float(number)
        return number if kind is Kind.DOUBLE else float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise NotOfSchema(f"{shown(number)} is out of a {kind.value}'s range") from None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- Python values to Arrow -----------------------------------------------------------------------------


def column_of(kind: Kind, values: Sequence[Any], *, is_settled: bool = False) -> pa.Array:
    """Arrow's column of them; :class:`NotOfSchema` names the first that is not of the kind.

    ``is_settled``: all are what :func:`settled` gives.
    """
    if is_settled or set(map(type, values)) <= _PLAIN[kind]:
        try:
            return _plain_column(kind, values, is_settled)
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError, NotOfSchema):
            pass  # one by one, to name it, or because Arrow is stricter than need be
    exact = []
    for index, value in enumerate(values):
        try:
            exact.append(settled(kind, value))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=index) from None
    return _plain_column(kind, exact, True)


_PLAIN: Final[dict[Kind, set[type]]] = {
    kind: {kind.python, type(None)} | ({int} if kind in (Kind.DOUBLE, Kind.FLOAT) else set()) for kind in Kind
}


def _plain_column(kind: Kind, values: Sequence[Any], is_settled: bool) -> pa.Array:
    if kind is Kind.TIMESTAMP:
        return _times(values, is_settled)
    if kind is not Kind.FLOAT:
        return pa.array(values, kind.arrow)
    doubles = pa.array(values, pa.float64())
    floats = doubles.cast(pa.float32(), safe=False)
    if _overflows(doubles, floats):
        raise NotOfSchema("out of a float's range")
    return floats


def _overflows(doubles: pa.Array, floats: pa.Array) -> bool:
    return not pc.all(pc.equal(pc.is_inf(doubles), pc.is_inf(floats)), min_count=0).as_py()


def _times(values: Sequence[Any], is_settled: bool) -> pa.Array:
    """By way of their ISO text, which msgspec writes and Arrow reads far faster than Arrow asks each datetime."""
    has_null = type(None) in set(map(type, values))
    present = [EPOCH if value is None else value for value in values] if has_null else values
    if not is_settled and countOf(map(_zone_of, present), UTC) != len(present):
        present = [in_utc(value) for value in present]
    texts = ENCODER.encode_lines(present)
    line_ends = np.flatnonzero(np.frombuffer(texts, np.uint8) == ord("\n"))
    ends = line_ends - 3 * np.arange(len(present)) - 2  # without two quotes and a line end each
    data = pa.py_buffer(texts.translate(None, _QUOTES_AND_LINES))
    times = binary_array(ends, data).cast(pa.string()).cast(Kind.TIMESTAMP.arrow)
    if has_null:
        is_null = np.fromiter((value is None for value in values), np.bool_, len(values))
        times = pc.if_else(pa.array(is_null), pa.scalar(None, times.type), times)
    return times


def binary_array(ends: npt.NDArray[np.int64], data: pa.Buffer) -> pa.Array:
    """Values that stand one behind another in ``data``, by where each ends; large binary where they must be."""
    is_large = len(ends) > 0 and ends[-1] > np.iinfo(np.int32).max
    offsets = np.zeros(len(ends) + 1, np.int64 if is_large else np.int32)
    offsets[1:] = ends
    type_ = pa.large_binary() if is_large else pa.binary()
    return pa.Array.from_buffers(type_, len(ends), [None, pa.py_buffer(offsets), data])


# --- Arrow to Python values -----------------------------------------------------------------------------


def values_of(kind: Kind, column: pa.Array) -> list[Any]:
    """The Python values of a column of the kind's own Arrow type."""
    values: list[Any]
    if kind is Kind.TIMESTAMP:
        return _datetimes(column)
    if kind is Kind.DATE:
        _check_years(column.cast(pa.int32()), *_DAYS)
        values = column.to_numpy(zero_copy_only=False).tolist()
    elif kind in (Kind.STRING, Kind.BINARY) or column.null_count:
        values = column.to_pylist()
    else:
        values = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _datetimes(column: pa.Array) -> list[Any]:
    """The other way round by msgpack, whose instants numpy can write and msgspec reads."""
    microseconds = column.cast(pa.int64())
    _check_years(microseconds, *_MICROSECONDS)
    numbers = microseconds.fill_null(0).to_numpy(zero_copy_only=False)
    packed = np.empty(len(numbers), _PACKED_TIME)
    packed["head"] = _PACKED_TIME_HEAD
    seconds, fraction = np.divmod(numbers, 1_000_000)
    packed["seconds"], packed["nanoseconds"] = seconds, fraction * 1_000
    values: list[Any] = _TIMES.decode(b"\xdd" + len(packed).to_bytes(4, "big") + packed.tobytes())
    for index in np.flatnonzero(column.is_null()).tolist() if column.null_count else ():
        values[index] = None
    return values


def _check_years(numbers: pa.Array, first: int, last: int) -> None:
    least, most = pc.min_max(numbers).as_py().values()
    if least is not None and (least < first or most > last):
        raise NotOfSchema("a time is outside of the years 1 to 9999")


def in_family(kind: Kind, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column of any like Arrow type as one of the kind's own type; :class:`NotOfSchema` if it does not fit.

    Like are: whole numbers of any width; floats, and whole numbers that they can tell; texts and bytes however they
    are laid out; timestamps of any unit and zone (without one: UTC), if nothing is below a microsecond.
    """
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.array([], column.type)])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == kind.arrow:
        return column
    if not (pa.types.is_null(column.type) or any(is_like(column.type) for is_like in _LIKE[kind])):
        raise NotOfSchema(f"Arrow's {column.type} is no {kind.value}")
    try:
        narrow = column.cast(kind.arrow)
    except pa.ArrowInvalid as error:
        raise NotOfSchema(f"Arrow's {column.type} does not fit into {kind.value}: {error}") from None
    if kind is Kind.FLOAT and pa.types.is_float64(column.type) and _overflows(column, narrow):
        raise NotOfSchema("a number is out of a float's range")
    return narrow


_LIKE: Final[dict[Kind, tuple[Callable[[pa.DataType], bool], ...]]] = {
    Kind.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Kind.LONG: (pa.types.is_integer,),
    Kind.INT: (pa.types.is_integer,),
    Kind.DOUBLE: (pa.types.is_floating, pa.types.is_integer),
    Kind.FLOAT: (pa.types.is_floating, pa.types.is_integer),
    Kind.BOOLEAN: (pa.types.is_boolean,),
    Kind.TIMESTAMP: (pa.types.is_timestamp,),
    Kind.DATE: (pa.types.is_date,),
    Kind.BINARY: (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    ),
}


def kind_of(type_: pa.DataType) -> Kind | None:
    """The narrowest kind that takes the values of this Arrow type; ``None`` if none does."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_integer(type_):
        return Kind.INT if type_.bit_width < 32 or type_ == pa.int32() else Kind.LONG
    if pa.types.is_floating(type_):
        return Kind.DOUBLE if type_ == pa.float64() else Kind.FLOAT
    if pa.types.is_null(type_):
        return Kind.STRING
    return next((kind for kind, likes in _LIKE.items() if any(is_like(type_) for is_like in likes)), None)


# --- Arrow to JSON texts --------------------------------------------------------------------------------


def json_texts(kind: Kind, column: pa.Array) -> pa.Array:
    """Each value's JSON (of a column of the kind's own type), the very one that msgspec writes; null where it is."""
    if kind in (Kind.LONG, Kind.INT, Kind.BOOLEAN):
        return column.cast(pa.string())
    if kind is Kind.STRING and not _has_escapes(column):
        return pc.binary_join_element_wise('"', column, '"', "")
    if kind in (Kind.DOUBLE, Kind.FLOAT):
        is_finite = pc.is_finite(column)
        if not pc.all(is_finite, min_count=0).as_py():
            index = is_finite.index(False).as_py()
            raise NotOfSchema(f"{column[index].as_py()} cannot be written as JSON", index=index)
    present = column.drop_null() if column.null_count else column
    texts = split_lines(ENCODER.encode_lines(values_of(kind, present))).cast(pa.string())
    if column.null_count:
        places = np.cumsum(column.is_valid()) - 1
        texts = texts.take(pa.array(places, mask=np.asarray(column.is_null())))
    return texts


def _has_escapes(column: pa.Array) -> bool:
    """Whether one of the texts has a letter that JSON escapes: a quote, a backslash, a control character."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return False
    starts = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    letters = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    return bool(((letters < 0x20) | (letters == ord('"')) | (letters == ord("\\"))).any())


def split_lines(lines: bytes) -> pa.Array:
    """The lines as binary values; there is a line end behind each, and none in one."""
    line_ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))
    ends = line_ends - np.arange(len(line_ends))
    return binary_array(ends, pa.py_buffer(lines.replace(b"\n", b"")))
