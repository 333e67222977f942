"""Rows that no log can take, as rows of the sink's topic of dead letters (option ``deadLetterTopic``).

A letter is a row of its micro-batch like any other: it has a sequence of its writer, and is decided with it. So an
attempt that is repeated meets its letters as it meets its rows, and none is there twice.

That holds because what makes a letter of a row is in the row, in the options, or in the run's BEGIN: a null topic, a
name that no topic can have, a partition that its topic has not, more bytes than ``kafka.max.request.size``. What a
broker's settings say today decides nothing here: they may be others when the row comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.dead_letter import AT_HEADER, CUT_HEADER, VALUE_BYTES_MAX, WHY_HEADER
from semel.core.log.names import topic_name_error
from semel.errors import ConfigError
from semel.record.columnar import row_sizes_max
from semel.spark.options import SinkOptions
from semel.spark.output import Incoming, Rows

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_REASON_CHARS_MAX: Final = 200  # it repeats the name


def letters_rule(options: SinkOptions) -> str:
    """Which rows go where, as part of what binds a run while rows are undecided."""
    topic, size = options.dead_letter_topic, options.batch_bytes_max
    return "" if topic is None else f"; rows that cannot be written, or have over {size} bytes, to {topic!r}"


def unwritable(
    incoming: Incoming, options: SinkOptions, partition_count_of: Callable[[str], int]
) -> dict[int, str]:
    """Which rows go to the dead letters instead, by their places in the batch, and why."""
    found: dict[int, str] = {}
    rows = incoming.rows
    sizes = row_sizes_max(rows.keys, rows.values, rows.headers)
    for at in np.flatnonzero(sizes > options.batch_bytes_max):
        found[int(at)] = (
            f"it has up to {sizes[at]} bytes, and kafka.max.request.size is {options.batch_bytes_max}"
        )
    if options.topic is None:
        assert incoming.topics is not None
        for at in np.flatnonzero(np.asarray(incoming.topics.is_null())):
            found.setdefault(int(at), "column topic is null")
        topics = [name for name in pc.unique(incoming.topics).to_pylist() if name is not None]
    else:
        topics = [options.topic]
    everywhere = np.ones(len(rows), bool)
    for topic in topics:
        if topic == options.dead_letter_topic:
            raise ConfigError(
                f"topic {topic!r} is that of the dead letters, and rows go there, too: take another one"
            )
        its = everywhere
        if options.topic is None:
            its = np.asarray(pc.equal(incoming.topics, topic).fill_null(False))
            reason = topic_name_error(topic)
            if reason is not None:
                for at in np.flatnonzero(its):
                    found.setdefault(int(at), f"column topic: {reason[:_REASON_CHARS_MAX]}")
                continue
        if incoming.partitions is not None:
            count = partition_count_of(topic)
            named = np.asarray(incoming.partitions.fill_null(-1))
            for at in np.flatnonzero((named >= count) & its):
                found.setdefault(
                    int(at), f"column partition names {named[at]}, and topic {topic!r} has {count}"
                )
    return dict(sorted(found.items()))


def letters_of(incoming: Incoming, reasons: dict[int, str], writer: str, batch_bytes_max: int) -> Incoming:
    """The letters of these rows, in their order: key, value and headers as they were, as far as they fit."""
    rows = incoming.rows
    room = max(min(VALUE_BYTES_MAX, batch_bytes_max - 4096), 0)
    keys, values, headers = [], [], []
    for at, why in reasons.items():
        key = None if rows.keys is None else rows.keys[at].as_py()
        value = rows.values[at].as_py()
        own = [] if rows.headers is None else rows.headers[at].as_py() or []
        size = len(key or b"") + len(value or b"")
        told = [{"key": AT_HEADER, "value": f"{writer}/{int(incoming.numbers[at])}".encode()}]
        told.append({"key": WHY_HEADER, "value": why.encode()})
        if size + sum(len(one["key"]) + len(one["value"] or b"") for one in own) > room:
            key, value, own = key and key[: room // 2], value and value[: room // 2], []
            cut = f"key, value and headers: the first {room // 2} bytes of key and value, of {size}"
            told.append({"key": CUT_HEADER, "value": cut.encode()})
        keys.append(key)
        values.append(value)
        headers.append([*own, *told])
    at = pa.array(list(reasons), pa.int64())
    letters = Rows(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(headers, _HEADERS),
        None if rows.timestamps is None else rows.timestamps.take(at),
    )
    return Incoming(letters, incoming.numbers[np.asarray(at)])
