"""Whose topic it is: those that a flow makes for itself, by the names of its stages' sinks.

A flow counts on every row of its own topics. Nobody else may write there, and nobody else does by chance: names are
checked where a flow, a copy or a sink is told its output. (A plain producer is told nothing: see docs/flows.md.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MERGE_SUFFIX: Final = ".merge"
CHANGELOG_SUFFIX: Final = ".changelog"
SIDE_SUFFIXES: Final = (".bad", ".late")  # of a flow

# A flow's own topics are read again after any time: they are never compacted, and nothing falls out of them.
OWN_TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


def stages_that_may_own(topic: str) -> list[str]:
    """The sink ids of the stages of which it would be the output, the merge log or the changelog."""
    names = [topic]
    names += [
        topic.removesuffix(suffix) for suffix in (MERGE_SUFFIX, CHANGELOG_SUFFIX) if topic.endswith(suffix)
    ]
    parts = [name.rpartition(".") for name in names]
    return [f"{flow}/{stage}" for flow, _, stage in parts if flow and stage]


def flow_that_may_own(topic: str) -> str | None:
    """The flow of which it would be the topic of bad or late rows."""
    flow = next((topic.removesuffix(suffix) for suffix in SIDE_SUFFIXES if topic.endswith(suffix)), "")
    return flow or None


def foreign_output(topic: str, flow: str) -> str:
    """Why nobody else may write there, and what to do; whoever says it says what was not written."""
    return (
        f"topic {topic!r} is one that flow {flow!r} makes for itself: it counts every row there as its own. Write to "
        f"another topic"
    )
