"""Bugs planted in copies: each leaves one rule of their protocol out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from semel.client.blocking import Cluster
from semel.copy import takeover, writing
from semel.copy.log import CopyLog
from semel.copy.reading import Part, SourceReader
from semel.copy.topics import CopyTopics
from semel.copy.writing import Writer
from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Chunk, Held, Joined, Next, Place
from semel.core.copy.resume import Ending, Lost
from semel.core.copy.spans import Spans, row_count
from semel.core.copy.tenure import Tenure
from semel.sim.copies.drawing import seed_has_copies
from semel.sim.plants.planting import FINISHES, Patches, plant
from semel.types import ProducerGrant, TopicPartition

SOURCE, PLANNED = "copy_is_source", "copy_rows_are_planned"
SHUT_OUT, STOPPED = "copy_zombies_shut_out", "copy_stops_are_right"

copy_plant = partial(plant, may_show=seed_has_copies)

# -- what is said before ----------------------------------------------------------------------------------


@copy_plant("rows are sent before NEXT is durable", "the plan goes first", PLANNED, SOURCE, STOPPED)
def copy_rows_before_next(patch: Patches) -> None:
    def append(log: CopyLog, entry: Any) -> None:
        if not isinstance(entry, Next):
            original_append(log, entry)

    def write(
        writer: Writer, parts: Mapping[TopicPartition, Part], places: Mapping[TopicPartition, Place]
    ) -> None:
        chunks = tuple(
            writer._chunk(source, part, places[source].output_partition)
            for source, part in parts.items()
            if part.batches
        )
        original_write(writer, parts, places)
        if chunks:
            original_append(writer._log, Next(writer._grant, chunks))

    original_append = patch.set(CopyLog, "append", append)
    original_write = patch.set(Writer, "write", write)


@copy_plant(
    "NEXT says of the rows that it announces that they are stored", "unsure rows are unsure", SOURCE, STOPPED
)
def copy_in_flight_is_acknowledged(patch: Patches) -> None:
    def chunk(writer: Writer, source: TopicPartition, part: Part, out: TopicPartition) -> Chunk:
        made: Chunk = original(writer, source, part, out)
        return replace(made, acknowledged=made.sequence + row_count(made.spans))

    original = patch.set(Writer, "_chunk", chunk)


@copy_plant("a chunk whose offsets have gaps is taken as dense", "rows are counted", SOURCE, STOPPED, PLANNED)
def copy_gaps_taken_as_dense(patch: Patches) -> None:
    def spans(part: Part) -> Spans:
        counted: Spans = original.fget(part)
        return ((counted[0][0], counted[-1][1]),) if counted else ()

    original = patch.set(Part, "spans", property(spans))


# -- who holds the job -------------------------------------------------------------------------------------


@copy_plant(
    "a holder believes the answer, and does not look for a HELD in front",
    "holders read back",
    SOURCE,
    SHUT_OUT,
    PLANNED,
    STOPPED,
)
def copy_holders_do_not_read_back(patch: Patches) -> None:
    def append(log: CopyLog, entry: Begun | Joined | Next) -> None:
        offset = log._append(entry)
        log.history.apply(entry)
        log.history.end_offset = offset + 1

    patch.set(CopyLog, "append", append)


@copy_plant(
    "records of a holder that lost the job count",
    "records name the newest HELD",
    SOURCE,
    PLANNED,
    STOPPED,
    SHUT_OUT,
    FINISHES,
)
def copy_records_of_any_holder(patch: Patches) -> None:
    def apply(history: CopyHistory, entry: Any) -> bool:
        if history.holder is None or isinstance(entry, Held) or entry.grant == history.holder.grant:
            counts: bool = original(history, entry)
            return counts
        known = {chunk.source for chunk in getattr(entry, "chunks", ())} <= history.places.keys()
        holder, history.holder = history.holder, Held(entry.grant, "", 0)
        if known:
            history.held_epochs.setdefault(entry.grant.producer_id, entry.grant.producer_epoch)
            original(history, entry)
        history.holder = holder
        return known

    original = patch.set(CopyHistory, "apply", apply)


@copy_plant(
    "a copy that has lost its connection takes the job over again, whoever holds it by then",
    "here",
    "copy_is_not_taken_back",
)
def copy_taken_back(patch: Patches) -> None:
    patch.set(Tenure, "is_over", lambda *_: False)


@copy_plant(
    "who takes the job over does not shut out who was before", "fences go first", SOURCE, SHUT_OUT, STOPPED
)
def copy_writers_are_not_shut_out(patch: Patches) -> None:
    patch.set(takeover, "_shut_out", lambda *_: {})


@copy_plant(
    "a forgotten writer is shut out one epoch behind its own, though others have raised it further",
    "here",
    STOPPED,
    FINISHES,
)
def copy_forgotten_writers_one_epoch_on(patch: Patches) -> None:
    def epoch(history: CopyHistory, grant: ProducerGrant) -> int:
        assert history.writer is not None
        is_same = history.writer.producer_id == grant.producer_id
        return grant.producer_epoch if is_same else history.writer.producer_epoch + 1

    patch.set(CopyHistory, "epoch_to_shut_out", epoch)


@copy_plant("a new holder's sequences go on behind the old one's", "sequences begin at 0", STOPPED, FINISHES)
def copy_sequences_go_on(patch: Patches) -> None:
    def kept(place: Place, **changes: Any) -> Place:
        changes.pop("sequence", None)
        return replace(place, **changes)

    patch.set(takeover, "replace", kept)


# -- where it goes on --------------------------------------------------------------------------------------


@copy_plant(
    "the next holder looks for rows behind those that it is unsure of",
    "the scan begins at the sure end",
    SOURCE,
    STOPPED,
)
def copy_scan_begins_at_the_end(patch: Patches) -> None:
    def stored(*asked: Any) -> Any:
        destination, plan, history, place, sure, _, begins, end, is_compacted = asked
        nowhere = replace(place, output_end=end)
        return original(destination, plan, history, nowhere, sure, None, begins, end, is_compacted)

    original = patch.set(takeover, "_stored", stored)


@copy_plant(
    "the next holder goes on where NEXT ends, whatever is stored",
    "the stored sequence says where",
    SOURCE,
    STOPPED,
)
def copy_goes_on_where_next_ends(patch: Patches) -> None:
    def behind(place: Place, chunks: Sequence[Chunk], stored: int) -> Place | Lost:
        planned = chunks[-1].sequence + row_count(chunks[-1].spans) if chunks else stored
        found: Place | Lost = original(place, chunks, planned)
        return found

    original = patch.set(takeover, "place_behind", behind)


@copy_plant("the row that was stored last comes once more", "the row behind the last", SOURCE, STOPPED)
def copy_last_row_again(patch: Patches) -> None:
    def behind(place: Place, chunks: Sequence[Chunk], stored: int) -> Place | Lost:
        found: Place | Lost = original(place, chunks, stored)
        if isinstance(found, Lost) or found.mark is not None or found.offset == place.offset:
            return found
        return replace(found, offset=found.offset - 1)

    original = patch.set(takeover, "place_behind", behind)


# -- what is lost ------------------------------------------------------------------------------------------


@copy_plant(
    "an output that ends in front of what was acknowledged is not told", "losses are told", SOURCE, STOPPED
)
def copy_lost_ends_are_not_told(patch: Patches) -> None:
    _take_ends_for_right(patch)


@copy_plant(
    "an output that was made anew is taken for the one before",
    "topics have ids",
    SOURCE,
    STOPPED,
    SHUT_OUT,
    FINISHES,
)
def copy_outputs_go_by_name(patch: Patches) -> None:
    patch.set(CopyTopics, "check_outputs", lambda *_: None)
    _take_ends_for_right(patch)


def _take_ends_for_right(patch: Patches) -> None:
    """Neither where an output ends nor the batch that it ends with says that it lost rows."""

    def proven(
        destination: Cluster, endings: Mapping[TopicPartition, Ending], outputs: list[TopicPartition]
    ) -> Any:
        ends, marks, _ = original(destination, endings, outputs)
        return ends, marks, {}

    patch.set(takeover, "_check_ends", lambda *_: None)
    patch.set(Writer, "_prove", lambda *_: None)
    original = patch.set(takeover, "prove", proven)


@copy_plant(
    "rows that were trimmed before they were copied are passed over in silence", "losses are told", SOURCE
)
def copy_trims_are_not_told(patch: Patches) -> None:
    def out_of_range(reader: SourceReader, source: TopicPartition, place: Place) -> None:
        begins = reader._listed([source], -2)[source]
        if begins <= place.offset:
            original(reader, source, place)
        else:
            reader._places[source] = replace(place, offset=begins, mark=None)

    original = patch.set(SourceReader, "_out_of_range", out_of_range)


@copy_plant("an answer that overtakes a lost one is taken for a lost end", "here", STOPPED)
def copy_late_answers_are_losses(patch: Patches) -> None:
    def ahead(newer: int, older: int) -> int:
        found: int = original(newer, older)
        return max(0, found)

    original = patch.set(writing, "distance", ahead)
