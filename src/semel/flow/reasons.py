"""Why a stage is there and is made so, in the words of ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from semel.flow.plan import Input
from semel.flow.tree import KeyByNode, Node

POSITIONS: Final = "positions together"
REPARTITION: Final = "repartition"
MERGE_LOG: Final = "merge log"
STATE: Final = "merge log, state in the commit"


@dataclass(frozen=True, slots=True)
class Reason:
    """A pattern, and why it is that one."""

    pattern: str
    text: str


COPY: Final = Reason(
    POSITIONS, "a compacted topic loses rows that a replay would ask for: it is copied first"
)
SHARED: Final = "Several steps take its rows: they are made once, and read from a topic."
MERGED: Final = "Its rows meet those of another topic, and topics are what a merge log is of."

_STATELESS: Final = (
    "Each row is answered for itself: a replay gives the same rows, however its ranges are cut."
)


def keyed(rekey: KeyByNode, read: Input, steps: Sequence[Any], because: str) -> Reason:
    """A stage that ends in a key."""
    text = (
        f"{rekey.text} brings the rows of a key together through a topic; no shuffle, and no order to record."
    )
    spared = ""
    if not read.is_internal and not steps and rekey.partition_count is None:
        names = ", ".join(f'"{field.name}"' for field in rekey.shape.key or ())
        key = names if len(rekey.shape.key or ()) == 1 else f"({names})"
        spared = f"Where the records of {read.topic} have that key already, source(..., key={key}) spares the topic."
    return Reason(REPARTITION, _said(text, _STATELESS, because, spared))


def cut(because: str, why: str) -> Reason:
    """A stage of stateless steps in front of another stage."""
    return Reason(POSITIONS, _said(_STATELESS, because, why))


def output(rekey: KeyByNode | None, because: str) -> Reason:
    """A stateless stage that writes a topic of the user's."""
    keys = "" if rekey is None else f"{rekey.text} keys the output itself, without a topic in between. "
    return Reason(POSITIONS if rekey is None else REPARTITION, _said(keys + _STATELESS, because))


def stateful(inputs: Sequence[Input], steps: Sequence[Any], because: str) -> Reason:
    """A stage with a merge log."""
    topics = " and ".join(read.topic for read in inputs)
    if not any(step.is_stateful for step in steps):
        text = f"The rows of {topics} meet in no order of their own: the one that they get is recorded, and replayed."
        return Reason(MERGE_LOG, _said(text, because))
    names = ", ".join(step.name for step in steps if step.is_stateful)
    text = (
        f"What comes out of {names} depends on which rows came before: their order, and the entries that they come in, "
        f"are recorded, so that a replay is cut as the first run was. The state is that of the decided end."
    )
    return Reason(STATE, _said(text, because))


def cut_behind(node: Node, behind: Node) -> str:
    """A step of Spark's behind one that ends in a topic."""
    if isinstance(behind, KeyByNode):
        return (
            f"{node.text} at {node.site} is Spark's and stands behind {behind.text}, so it reads the topic of that. In "
            f"front of it, or written in Python, it needs no stage of its own."
        )
    return (
        f"{node.text} at {node.site} is Spark's and stands behind {behind.text}, whose rows do not go through Spark. "
        f"Written in Python (filter, map) it needs no stage of its own."
    )


RESTED: Final = (
    "Windows of one stage go on after one idle time, and these have another, so what they read is a topic."
)
TIMED: Final = "Windows go by the time of each of their inputs, so what they read is a topic."


def joined(node: Node) -> str:
    """A step with state in front of a join."""
    return f"{node.text} takes its rows in one order with those of a table, which is recorded where both are topics."


def cut_before(node: Node, step: Node) -> str:
    """A step of Spark's in front of a step that reads a merge log."""
    return (
        f"{step.text} at {step.site} is Spark's, and {node.text} reads its rows from a topic, in recorded order. In "
        f"front of key_by, or written in Python (filter, map), it needs no stage of its own."
    )


def doubled(topic: str) -> str:
    """Two streams of one topic that meet again."""
    return f"Two streams of {topic} meet again, and a merge log has each topic once."


def _said(*sentences: str) -> str:
    return " ".join(dict.fromkeys(sentence.strip() for sentence in sentences if sentence.strip()))
