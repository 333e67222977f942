"""Requests that were refused, a line each in the debug log (``log.level=debug``), for whoever asks why a test failed.

At another level nothing is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from semel.errors import ErrorCode
from semel.server.bounded_log import shown
from semel.wire.api_names import name_of

log = logging.getLogger("semel.server.refused")

_OF_ONE_REQUEST_MAX: Final = 10
_NAMES: Final = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name")
_NUMBERS: Final = ("partition_index", "partition")
# Steps of the protocol that every group goes.
_USUAL: Final = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS)


def are_noted() -> bool:
    """Whether anybody wants to know."""
    return log.isEnabledFor(logging.DEBUG)


def note(api_key: int, code: int, name: object = "", number: int | None = None) -> None:
    """One refusal: of a topic and partition, of a group, or of whatever the request names."""
    found = ErrorCode.of(code)
    if found in _USUAL or not are_noted():
        return
    place = "" if not name else f" of {shown(str(name))}"
    place += "" if number is None else f", partition {number}"
    log.debug("%s%s: %s", name_of(api_key), place, found.name)


def note_answer(api_key: int, answer: Mapping[str, Any]) -> None:
    """All that an answer refuses; of many the first ones."""
    if are_noted():
        for code, name, number in islice(_refusals(answer, "", None), _OF_ONE_REQUEST_MAX):
            note(api_key, code, name, number)


def _refusals(
    fields: Mapping[str, Any], name: object, number: int | None
) -> Iterator[tuple[int, object, int | None]]:
    name = next((fields[each] for each in _NAMES if fields.get(each)), name)
    number = next((fields[each] for each in _NUMBERS if isinstance(fields.get(each), int)), number)
    code = fields.get("error_code", ErrorCode.NONE)
    if code not in _USUAL:
        yield code, name, number
    for value in fields.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Mapping):
                yield from _refusals(each, name, number)
