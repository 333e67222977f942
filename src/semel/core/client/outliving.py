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
from semel.core.client.partition_queue import PartitionQueue


def doubt(queue: PartitionQueue) -> None:
    """Until the log is heard, what was sent may be stored: a copy may have come before the batch was refused."""
    for batch in queue.waiting:
        batch.maybe_stored |= batch.was_sent


def ask_the_log(queue: PartitionQueue, now_ms: int, effects: Effects) -> None:
    """Ask what is to be asked, or let what waits go anew."""
    if queue.in_flight or queue.asking is not None or not queue.waiting:
        return
    front = queue.waiting[0]
    if not front.was_sent:
        queue.forget_attempts()
    elif now_ms >= front.not_before_ms and front.grant is not None:
        queue.ask(front)
        if queue.is_shut_out:
            effects.read_back.append(ReadBack(queue.tp, front.grant, queue.last_stored))
        else:
            effects.ask_log.append((queue.tp, front.grant))


def judge(queue: PartitionQueue, answer: LogAnswered, now_ms: int, pause_ms: int) -> None:
    """The log does not have the front batch: not yet, or not any more, or for good."""
    front = queue.waiting[0]
    if answer.is_final:
        queue.forget_attempts()
    elif answer.lease_remaining_ms:
        until_ms = answer.asked_ms + answer.lease_remaining_ms
        queue.lease_lives(until_ms)
        front.not_before_ms = now_ms if until_ms > now_ms else now_ms + pause_ms
    else:
        queue.shut_out(now_ms)
        front.not_before_ms = now_ms
