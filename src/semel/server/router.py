"""The way from a request to its handler.

It knows no socket, clock or thread either: a request comes to one outcome, and what the outcome asks for (sync, wait)
is the caller's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final

from semel.config import Address
from semel.server.broker import Broker
from semel.server.handlers import HANDLERS
from semel.server.handlers import plain_produce as plain_produces
from semel.server.handlers.plain_fetch import handle as handle_plain_fetch
from semel.server.handlers.plain_produce import Plain
from semel.server.outcome import Answer, Call, Handled, NotServed, Outcome
from semel.wire import api_versions, plain_fetch, plain_produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.api_names import name_of
from semel.wire.frames import Buffer, decode_request_header

# By number, as it comes off the wire; an API that is advertised but has no handler fails right here.
_SERVED: Final = {int(api_key): (served, HANDLERS[api_key]) for api_key, served in SERVED.items()}
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


def handle_next(
    broker: Broker,
    frames: Sequence[memoryview],
    dialled: Address,
    now_ms: int,
    answer_bytes_max: Callable[[], int],
    peer_host: str = "",
) -> Handled:
    """Handle the first of the frames, with those behind it that can be handled together with it."""
    arrived = []
    for frame in frames:
        plain = plain_produce.decode(frame)
        if plain is None:
            break
        arrived.append(plain)
    if arrived:
        outcome: Outcome
        outcome, requests = plain_produces.handle_all(broker, arrived, now_ms)
        return _produced(arrived, outcome, requests)
    asked = plain_fetch.decode(frames[0])
    if asked is not None:
        fetch_form, correlation_id, partitions = asked
        found = handle_plain_fetch(broker, fetch_form, correlation_id, partitions, answer_bytes_max)
        if found is not None:
            return Handled(found, 1, _FETCH, fetch_form.version, correlation_id)
    header, body_at = decode_request_header(frames[0])
    api_key, version, correlation_id, client_id = header
    call = Call(api_key, version, client_id, dialled, now_ms, answer_bytes_max, peer_host)
    outcome = handle(broker, call, frames[0][body_at:])
    return Handled(outcome, 1, api_key, version, correlation_id)


def plain_at_head(broker: Broker, frames: Iterable[memoryview]) -> list[Plain]:
    """The plain produce requests at the head of ``frames`` that may be handled with those of other connections."""
    found: list[Plain] = []
    for frame in frames:
        plain = plain_produce.decode(frame)
        if plain is None:
            break
        is_like_the_last = bool(found) and plain[0] is found[-1][0]  # as mostly
        if not is_like_the_last and plain_produces.may_wait(broker, plain[0]):
            break
        found.append(plain)
    return found


def handle_together(broker: Broker, arrived: Sequence[Sequence[Plain]], now_ms: int) -> list[Handled]:
    """Handle what :func:`plain_at_head` found for several connections, and say what it comes to for each."""
    produced = plain_produces.append_all(broker, chain.from_iterable(arrived), now_ms)
    handled, end = [], 0
    for its in arrived:
        begin, end = end, end + len(its)
        outcome = plain_produces.conclude(broker, produced[begin:end])
        handled.append(_produced(its, outcome, len(its)))
    return handled


def _produced(arrived: Sequence[Plain], outcome: Outcome, requests: int) -> Handled:
    form, correlation_id, _ = arrived[0]
    return Handled(outcome, requests, _PRODUCE, form.version, correlation_id)


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    """One request's outcome. ``MalformedMessage`` when the body is not what its header announces."""
    api_key, version = call.api_key, call.api_version
    served = _SERVED.get(api_key)
    if served is None:
        return _not_served(call, "is not served")
    api, handler = served
    if not api.version_min <= version <= api.version_max:
        if api_key == ApiKey.API_VERSIONS:
            return Answer((api_versions.refusal(),))
        return _not_served(call, f"is not served ({api.version_min} to {api.version_max} are)")
    broker.counters.requests[api_key, version] += 1
    return handler(broker, call, body)


def _not_served(call: Call, why: str) -> NotServed:
    wanted = f"{name_of(call.api_key)} version {call.api_version} {why}"
    return NotServed(wanted, is_offence=True, client_id=call.client_id)
