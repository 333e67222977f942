"""A partition whose lease is over by our clock, with batches unsettled: what becomes of each is still definite.

Nothing is sent under the lease. If the front one was never sent, it cannot be in the log, nor can those behind it,
and all go as new ones under the next lease. Else the log is asked, even if every attempt was answered "not now": a
network may deliver a request twice, and its copy is judged by what the log is then. So:

- it has the batch: stored, and so is each behind it that it has;
- it has not, and its server says that the lease lives there: then what it says is the better reckoning (counted,
  as ever, from before the question), and the batch goes again under its own id;
- the server knows the id no more, or says that the lease is over: a late copy could still have come in between two
  questions. So the id is shut out of the partition, and then the log itself is read: what is not there now never
  comes.

The last of these is also the way out when a lease that lives is of no more use: a batch was refused for good after an
attempt that nobody answered, or stays in doubt when its time is over and others wait behind it.

So a batch is in doubt only if no leader answers within its time, or the log no longer has what was to be read.
"""

from __future__ import annotations

from semel.core.client.events import Effects, LogAnswered, ReadBack
from semel.core.client.pipe import PartitionPipe


def doubt(pipe: PartitionPipe) -> None:
    """Until the log is heard, what was sent may be stored: a copy may have come before the batch was refused."""
    for batch in pipe.waiting:
        batch.maybe_stored |= batch.was_sent


def ask_the_log(pipe: PartitionPipe, now_ms: int, effects: Effects) -> None:
    """Ask what is to be asked, or let what waits go anew."""
    if pipe.in_flight or pipe.asking is not None or not pipe.waiting:
        return
    front = pipe.waiting[0]
    if not front.was_sent:
        pipe.forget_attempts()
    elif now_ms >= front.not_before_ms and front.grant is not None:
        pipe.asking = front
        if pipe.is_shut:
            effects.read_back.append(ReadBack(pipe.tp, front.grant, pipe.last_stored))
        else:
            effects.ask_log.append((pipe.tp, front.grant))


def judge(pipe: PartitionPipe, answer: LogAnswered, now_ms: int, pause_ms: int) -> None:
    """The log does not have the front batch: not yet, or not any more, or for good."""
    front = pipe.waiting[0]
    if answer.is_final:
        pipe.forget_attempts()
    elif answer.lease_remaining_ms:
        pipe.ends_ms = answer.asked_ms + answer.lease_remaining_ms
        front.not_before_ms = now_ms if pipe.ends_ms > now_ms else now_ms + pause_ms
    else:
        pipe.is_shut = True  # from now on the log's memory of the id says only that
        front.not_before_ms = now_ms
