"""The fate of one row, as the caller sees it: a report, or an exception whose type says where the row is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from semel.core.client.batch import ProducerBatch
from semel.core.client.fate import Fate, Fenced, InDoubt, Parts, Refused, Stored
from semel.errors import CannotKnow, DeliveryError, FencedInDoubt, FencedNotStored, NotStored
from semel.sequence import advance
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """Where a row is stored, and under whose name.

    ``offset`` is None when the log said only *that* the row is stored (a duplicate's answer).
    ``already_stored``: a run before this one stored it; this one sent nothing.
    """

    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    already_stored: bool = False


class Promise:
    """What somebody waits for of a batch: its fate, which all of its rows share."""

    __slots__ = ("fate", "told", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.fate: Future[Fate] = Future()
        self.told = False  # somebody was given the error of one of its rows


class Promises(dict[ProducerBatch, Promise]):
    """By the batch as it was appended: made when one is first asked for, forgotten when it is kept."""

    def __missing__(self, batch: ProducerBatch) -> Promise:
        promise = self[batch] = Promise(batch.tp)
        return promise


class Delivery:
    """A row on its way. Blocking code calls ``result()``, async code awaits it."""

    __slots__ = ("_promise", "_row", "_timestamp_ms", "_tp")

    def __init__(self, tp: TopicPartition, promise: Promise | None, row: int, timestamp_ms: int) -> None:
        self._tp, self._promise, self._row, self._timestamp_ms = tp, promise, row, timestamp_ms

    @property
    def topic(self) -> str:
        return self._tp.topic

    @property
    def partition(self) -> int:
        return self._tp.partition

    def done(self) -> bool:
        return self._promise is None or self._promise.fate.done()

    def result(self, timeout: float | None = None) -> DeliveryReport:
        """Wait for the report; raises NotStored or CannotKnow; fenced, both are ProducerFenced.

        Raises TimeoutError after ``timeout`` seconds; the row stays on its way, and its report can be asked for again.
        """
        return self._report(None if self._promise is None else fates_within([self._promise], timeout)[0])

    def __await__(self) -> Generator[Any, None, DeliveryReport]:
        return self._wait().__await__()

    async def _wait(self) -> DeliveryReport:
        if self._promise is None:
            return self._report(None)
        return self._report(await settled_fate(self._promise))

    def _report(self, fate: Fate | None) -> DeliveryReport:
        row, tp = self._row, self._tp
        if fate is None:
            return DeliveryReport(*tp, None, self._timestamp_ms, -1, -1, NO_SEQUENCE, already_stored=True)
        if isinstance(fate, Parts):
            first, fate = fate.of_row(row)
            row -= first
        if not isinstance(fate, Stored):
            assert self._promise is not None
            self._promise.told = True
            raise error_of(fate, f"row for {tp}")
        grant = fate.grant
        return DeliveryReport(
            tp.topic,
            tp.partition,
            None if fate.base_offset is None else fate.base_offset + row,
            fate.log_append_time_ms if fate.log_append_time_ms >= 0 else self._timestamp_ms,
            NO_PRODUCER_ID if grant is None else grant.producer_id,
            NO_PRODUCER_EPOCH if grant is None else grant.producer_epoch,
            advance(fate.base_sequence, row),
        )


def fates_within(promises: Sequence[Promise], timeout_s: float | None) -> list[Fate]:
    """Wait for the fate of every batch, ``timeout_s`` in all."""
    give_up_s = None if timeout_s is None else time.monotonic() + timeout_s
    fates = []
    for promise in promises:
        left_s = None if give_up_s is None else max(0.0, give_up_s - time.monotonic())
        try:
            fates.append(promise.fate.result(left_s))
        except TimeoutError:
            raise TimeoutError(
                f"rows for {promise.tp} are still on their way after {timeout_s} s: not known to be stored, and not to "
                f"be sent again; their result can be asked for once more"
            ) from None
    return fates


async def settled_fate(promise: Promise) -> Fate:
    """Await a batch's fate; a waiter that gives up takes nothing with it."""
    return await asyncio.shield(asyncio.wrap_future(promise.fate))


def error_of(fate: Refused | InDoubt | Fenced, what: str) -> DeliveryError:
    """The exception for a fate, with what to do next."""
    match fate:
        case Refused(code, why):
            again = (
                "it is safe to send it again"
                if code.retriable
                else "mend that, then it is safe to send it again"
            )
            return NotStored(
                f"{what} is not stored: {why} [{code.name}]; {again}", code, f"{why} [{code.name}]"
            )
        case InDoubt(code, why):
            return CannotKnow(
                f"{what} may or may not be stored: {why} [{code.name}]; "
                "to find out, resume with the identity of this producer, or read the topic if it has none; "
                "never send it again blindly",
                code,
                f"{why} [{code.name}]",
            )
        case Fenced(code, grant, newer_epoch, maybe_stored):
            ours = (
                f"epoch {grant.producer_epoch} of producer {grant.producer_id}" if grant else "this producer"
            )
            newer = "a newer one" if newer_epoch is None else f"epoch {newer_epoch}"
            doubt = "may or may not be stored" if maybe_stored else "is not stored"
            kind = FencedInDoubt if maybe_stored else FencedNotStored
            return kind(
                f"{what} {doubt}: {ours} was fenced by {newer}: another copy of this identity was started; "
                "stop this one",
                code,
            )
