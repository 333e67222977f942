"""State in the commit: what a stateful task knows as of the decided end of its source partition, in the DECISION.

The end and the state stand in one record, so there is no moment at which one of them is decided and the other is not,
and nothing else has to be durable with it. Hence the rules, each of which :func:`judge_states` checks before there is
a DECISION:

* Either no task of a sink reports a state, or every task that has written does. An end without its state would let
  the next attempt start from an older one.
* One task has all of a source partition's range: two splits would each have a state of half the rows.
* What is carried from decision to decision is small. What is larger lives in a changelog, an output of the same sink,
  and only where to find it is here.

A state is its writer's, and a writer has its source topic's id in its name. Of a source partition there is one: the
newest writer's takes the place of an older name's. States of a topic that was made anew are dropped with its ends.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from semel.core.sink.ranges import SourceRange, ids_agree, source_topic_of, writers_of
from semel.core.sink.refusal import Reason, Refusal, is_stage, subject

STATE_BYTES_MAX: Final = 64 * 1024  # of one writer, inline
STATES_BYTES_MAX: Final = 4 * 2**20  # of all of a sink's
PLAN_BYTES_MAX: Final = 64 * 1024  # of a plan's text; a state's stands in every DECISION
_SHOWN_CHARS_MAX: Final = 200
_NOTHING_WRITTEN: Final = "Nothing was written now"
_NOT_DECIDED: Final = "The micro-batch is not decided; its rows stand in the output and will be met again"


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The state of one stage partition as of its decided end."""

    inline: bytes | None  # all of it; None: it is in the changelog
    changelog_from: int = 0  # the newest decided snapshot begins here in the changelog, or behind it
    digest: int = 0  # of what the micro-batch changed, so that a copy that was kept of it is known again

    @property
    def inline_bytes(self) -> int:
        """How much of a DECISION it takes."""
        return 0 if self.inline is None else len(self.inline)


@dataclass(frozen=True, slots=True)
class StateReport:
    """What one task that has written tells of its state."""

    writer: str
    source_range: SourceRange | None  # None: a batch write
    state: CommittedState | None


def state_of(states: Mapping[str, CommittedState], source_range: SourceRange) -> CommittedState | None:
    """The decided state that the rows of ``source_range`` come after; ``None``: there is none yet.

    Also under the name that its writer had before the topic's id was known, and never that of another topic.
    """
    if not ids_agree(source_range.from_topic_id, source_range.topic_id):
        return None
    for writer, state in states.items():
        if writer.startswith(writers_of(source_range.source)) and not source_range.is_stranger(writer):
            return state
    return None


def judge_states(
    sink_id: str, state_plan: str, states: Mapping[str, CommittedState], reports: Sequence[StateReport]
) -> Refusal | None:
    """Whether a DECISION may be made of ``reports``, which leave ``states``.

    ``state_plan`` is empty for a sink that keeps no state.
    """
    for report in reports:
        refusal = judge_state(sink_id, state_plan, report)
        if refusal is not None:
            return refusal
    size_bytes = sum(state.inline_bytes for state in states.values())
    if size_bytes > STATES_BYTES_MAX:
        return _broken(
            sink_id,
            f"its tasks' states are {size_bytes} bytes together, and a decision takes {STATES_BYTES_MAX} of them",
        )
    return None


def judge_state(sink_id: str, state_plan: str, report: StateReport) -> Refusal | None:
    """Whether one task's state can be decided with its range."""
    source_range, state = report.source_range, report.state
    if not state_plan or source_range is None:
        return None if state is None else _broken(sink_id, f"{report.writer} has a state, and no plan of it")
    refusal = judge_split(sink_id, state_plan, source_range)
    if refusal is not None:
        return refusal
    if state is None:
        return (
            None
            if source_range.is_gone
            else _broken(sink_id, f"{report.writer} has written, and has no state")
        )
    if state.inline_bytes > STATE_BYTES_MAX:
        return _broken(
            sink_id,
            f"the state of {report.writer} is {state.inline_bytes} bytes, and a decision takes {STATE_BYTES_MAX} of it",
        )
    return None


def judge_split(sink_id: str, state_plan: str, source_range: SourceRange) -> Refusal | None:
    """Before the first row: a task that keeps state has all rows of its source partition. And so has any of a flow's:
    where splits begin depends on where the range ends, and no checkpoint remembers that."""
    if source_range.split_count == 1 or not (state_plan or is_stage(sink_id)):
        return None
    why = "each task would know a part of it" if state_plan else "it could never be cut the same way again"
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"{subject(sink_id)} takes the range of {source_range.source} in one piece, and it is split in "
        f"{source_range.split_count}: {why}. Nothing was written. Leave out minPartitions and maxRecordsPerPartition",
    )


def judge_start(
    sink_id: str,
    state_plan: str,
    states: Mapping[str, CommittedState],
    decided_writers: Collection[str],
    source_range: SourceRange,
) -> Refusal | None:
    """Before the first row: a state that is not there is an empty one only where nothing was decided of it."""
    if not state_plan or state_of(states, source_range) is not None:
        return None
    if not ids_agree(source_range.from_topic_id, source_range.topic_id):
        return None
    mine = writers_of(source_range.source)
    for writer in decided_writers:
        if writer.startswith(mine) and not source_range.is_stranger(writer):
            return _broken(sink_id, f"rows of {writer} are decided, and no state of it is", _NOTHING_WRITTEN)
    return None


def next_states(
    previous: Mapping[str, CommittedState],
    reports: Sequence[StateReport],
    source_ids: Mapping[str, str],
    told_ids: Mapping[str, str],
) -> dict[str, CommittedState]:
    """The states as of a DECISION; idle writers' are carried forward.

    ``source_ids`` are the decided ids of the source topics, and ``told_ids`` those that the micro-batch has read.
    """
    kept = {
        writer: state
        for writer, state in previous.items()
        if ids_agree(source_ids.get(source_topic_of(writer)), told_ids.get(source_topic_of(writer)))
    }
    for report in reports:
        if report.source_range is not None:
            older = writers_of(report.source_range.source)
            kept = {writer: state for writer, state in kept.items() if not writer.startswith(older)}
    return kept | {report.writer: report.state for report in reports if report.state is not None}


def other_state_plan(sink_id: str, decided: str, planned: str) -> Refusal:
    """A state means something to the steps that made it, and to no others."""
    was, now = _excerpts(decided, planned)
    if not decided:
        what = (
            f"{subject(sink_id)} has decided rows without keeping state, and its plan now keeps one ({now})"
        )
    elif not planned:
        what = f"{subject(sink_id)} has decided rows with a state ({was}), and its plan now keeps none"
    else:
        what = f"the decided state of {subject(sink_id)} was made by the plan {was}, and it is now the plan {now}"
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"{what}: there is no state of the decided end for it. Nothing was written now, and what was decided stays so. "
        f"Run it as it was; or run the changed one under another name, to new topics and from the beginning of its "
        f"inputs, which is exact as long as they have all their rows",
    )


def other_plan(sink_id: str, written: str, planned: str, *, may_run: bool = False) -> Refusal:
    """Rows are undecided, and another plan may give others when they come again.

    ``may_run``: nobody was fenced yet, and who writes them may be at work.
    """
    was, now = _excerpts(written, planned)
    return Refusal(
        Reason.REPLAY_DIFFERS,
        f"rows of {subject(sink_id)} that are not decided yet were written by the plan {was or 'of no flow'}, and it "
        f"was changed to {now or 'that of no flow'}. {_NOTHING_WRITTEN}. "
        + ("If it runs now, let it come to its end and start this one then. Else run" if may_run else "Run")
        + " it as it was until they are decided, then change it",
    )


def plan_too_long(sink_id: str, plan: str) -> Refusal | None:
    """Every run's BEGIN has the plan, and every DECISION that of its state."""
    size_bytes = len(plan.encode())
    if size_bytes <= PLAN_BYTES_MAX:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"the plan of {subject(sink_id)} is a text of {size_bytes} bytes, and {PLAN_BYTES_MAX} are kept beside its "
        f"rows. Nothing was written. Make two stages of it",
    )


def states_body(states: Mapping[str, CommittedState]) -> dict[str, list[Any]]:
    """As JSON has them."""
    return {
        writer: [
            None if state.inline is None else base64.b64encode(state.inline).decode("ascii"),
            state.changelog_from,
            state.digest,
        ]
        for writer, state in sorted(states.items())
    }


def read_states(body: Mapping[str, list[Any]]) -> dict[str, CommittedState]:
    """The reverse; ``ValueError`` for an inline state that is none."""
    return {
        writer: CommittedState(
            None if inline is None else base64.b64decode(inline, validate=True), changelog_from, digest
        )
        for writer, (inline, changelog_from, digest) in body.items()
    }


def _broken(sink_id: str, what: str, stored: str = _NOT_DECIDED) -> Refusal:
    """No user's mistake: a stage that lets it come this far is not made right."""
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"{subject(sink_id)}: {what}. {stored}. This is a mistake in semel: please report it with this text",
    )


def _excerpts(one: str, other: str) -> tuple[str, str]:
    """Both texts, or what they are around the place where they begin to differ."""
    if max(len(one), len(other)) <= _SHOWN_CHARS_MAX:
        return one, other
    same = next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    first = max(0, same - _SHOWN_CHARS_MAX // 4)
    return _excerpt(one, first), _excerpt(other, first)


def _excerpt(text: str, first: int) -> str:
    if not text:
        return ""
    end = first + _SHOWN_CHARS_MAX
    return f"{'…' if first else ''}{text[first:end]}{'…' if end < len(text) else ''}"
