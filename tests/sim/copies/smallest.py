"""The smallest copy: one partition ``a-0``, copied by job ``c0`` to ``c0.a-0`` by one holder after another."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sim.checkers.smallest import header

from semel.core.copy.journal import Begun, Chunk, Entry, Held, Joined, Next, Place, encode
from semel.record.records import Record
from semel.sim.copies.ledger import SeenLog, SiteLedger, TopicLog
from semel.sim.copies.story import CopyStory
from semel.sim.copies.view import CopyView
from semel.types import ProducerGrant, TopicPartition

SOURCE, OUTPUT, JOURNAL = (
    TopicPartition("a", 0),
    TopicPartition("c0.a", 0),
    TopicPartition("__semel_copy.c0", 0),
)
FIRST, SECOND = ProducerGrant(7, 0), ProducerGrant(7, 1)
PLACE = Place(SOURCE, "s", 0, OUTPUT.topic, "o", 0, 0, 0)

BEGUN: tuple[Entry, ...] = (
    Held(FIRST, "c0.0", 0),
    Begun(FIRST, "c0.0", ()),
    Joined(FIRST, (PLACE,)),
    Next(FIRST, (Chunk(SOURCE, ((0, 9),), 9, 0, 0, 0),)),
)


def story() -> CopyStory:
    return CopyStory({"a": 1}, {}, True, 10, 10, 10, now_ms=lambda: 0)


def rows(*numbers: int, at: int = 0) -> list[Record]:
    """At offsets that follow on each other."""
    return [
        Record(at + place, 5, b"k", b"row %d" % number, (("h", None),))
        for place, number in enumerate(numbers)
    ]


def log(records: Sequence[Record], *, by: ProducerGrant = FIRST, **seen: int | bool) -> SeenLog:
    """One in which each row is a batch of its own."""
    made = SeenLog(list(records), **seen)  # type: ignore[arg-type]
    made.batches = [
        header(row.offset, by=by.producer_id, epoch=by.producer_epoch, sequence=place)
        for place, row in enumerate(records)
    ]
    return made


def view(
    source: Sequence[SeenLog],
    output: SeenLog | None,
    journal: Sequence[Entry] = BEGUN,
    *,
    of: CopyStory | None = None,
    is_finished: bool = False,
    goes_on: bool = False,
) -> CopyView:
    """``source``: the logs of the topics that had the name, one after the other."""
    of = of or story()
    of.job.is_finished, of.job.goes_on_after_loss = is_finished, goes_on
    ends = [SiteLedger(lambda: (), lambda: None) for _ in range(2)]
    for place, each in enumerate(source):
        topic_id = "s" * (place + 1)
        ends[0].logs[TopicLog(SOURCE, topic_id)], ends[0].ids["a"] = each, topic_id
    if output is not None:
        ends[1].logs[TopicLog(OUTPUT, "o")], ends[1].ids[OUTPUT.topic] = output, "o"
    said = SeenLog([Record(place, 0, None, encode(entry)) for place, entry in enumerate(journal)])
    ends[1].logs[TopicLog(JOURNAL, "j")], ends[1].ids[JOURNAL.topic] = said, "j"
    made = CopyView(of, of.job, *ends)
    made.refresh()
    return made
