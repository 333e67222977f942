"""Handlers of the messages that go through kio: from fields to fields, in any version.

Such a handler takes kio's request and gives the fields of the answer; one that has to wait for something is a coroutine
(:mod:`semel.server.operation`). :func:`through_schema` puts the bytes around it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from semel.server import refusals
from semel.server.broker import Broker
from semel.server.operation import InTurn, Steps
from semel.server.outcome import Answer, Call, Operation, Outcome
from semel.server.storage.aside import Change, aside
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer
from semel.wire.messages import Fields


@dataclass(frozen=True, slots=True)
class Large:
    """An answer's fields that become bytes in a thread, so that others go on meanwhile."""

    fields: Fields


Handler: TypeAlias = "Callable[[Broker, Call, Buffer], Outcome]"
FieldsHandler: TypeAlias = "Callable[[Broker, Call, Any], Fields | Steps[Fields] | Steps[Fields | Large]]"
ChangingHandler: TypeAlias = "Callable[[Broker, Call, Any], Change[Fields]]"


T = TypeVar("T")


def once(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[T]:
    """Each of ``items`` whose key has not been seen yet.

    A request that names one large thing many times would be answered by many copies of it: a kilobyte could
    ask for gigabytes. Kafka collects what is named into sets and maps, so no client counts on repeats.
    """
    seen: set[Hashable] = set()
    for item in items:
        found = key(item)
        if found not in seen:
            seen.add(found)
            yield item


def partitions_once(
    topics: Iterable[Any],
    *,
    name: str = "name",
    partitions: str = "partitions",
    number: str | None = "partition_index",
) -> list[tuple[str, list[Any]]]:
    """The topics with what is asked of their partitions, each partition :func:`once`."""
    seen: set[tuple[str, int]] = set()
    asked: list[tuple[str, list[Any]]] = []
    for topic in topics:
        topic_name = getattr(topic, name)
        items = []
        for item in getattr(topic, partitions):
            key = topic_name, item if number is None else getattr(item, number)
            if key not in seen:
                seen.add(key)
                items.append(item)
        asked.append((topic_name, items))
    return asked


def in_turn(handle: ChangingHandler) -> FieldsHandler:
    """A handler whose every request is a change."""

    async def handle_in_turn(broker: Broker, call: Call, request: Any) -> Fields:
        return await InTurn(lambda: handle(broker, call, request))

    return handle_in_turn


def through_schema(api_key: ApiKey, handle: FieldsHandler) -> Handler:
    """A handler of bytes from a handler of fields."""

    def handle_bytes(broker: Broker, call: Call, body: Buffer) -> Outcome:
        version = call.api_version

        def answer(fields: Fields) -> Answer:
            refusals.note_answer(api_key, fields)
            return Answer((messages.encode_response(api_key, version, fields),))

        async def answer_in_steps(steps: Steps[Fields | Large]) -> Answer:
            fields = await steps
            return await aside(answer, fields.fields) if isinstance(fields, Large) else answer(fields)

        found = handle(broker, call, messages.decode_request(api_key, version, body))
        return Operation(answer_in_steps(found)) if isinstance(found, Coroutine) else answer(found)

    return handle_bytes
