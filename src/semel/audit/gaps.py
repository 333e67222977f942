"""What a verdict does not cover: each thing that its reader could take for compared, and that was not. Pure.

A verdict says in its first lines what these are, whatever it is. What the user left out by an option is among them, and
so is what the log or the table has no trace of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.audit.checks import Comparison, Uniqueness
from semel.audit.contents import Contents
from semel.audit.identity import By, IdentityRule, KeyFrom
from semel.audit.report import TopicAudit
from semel.wording import counted

if TYPE_CHECKING:
    from semel.audit.run import AuditPlan

_STARTS_SHOWN_MAX = 5


def not_compared(
    plan: AuditPlan,
    source: TopicAudit | None,
    output: TopicAudit,
    result: Comparison | Uniqueness,
    contents: Contents | None = None,
) -> tuple[str, ...]:
    """One line each, the weightiest first."""
    found = _alone(plan, output, result) if source is None else _of_rows(plan, output, contents)
    if source is not None:
        found += _of_order(plan, result)
    if plan.subset:
        found.append("whether a row of the input is missing, as --subset allows")
    if plan.group is not None and source is None:
        found.append(f"what group {plan.group} has made of the rows: only that its positions lie in the log")
    if plan.input_value is not None:
        found.append(f"the input's values as they are: --input-value makes {plan.input_value} of each")
    for topic in (output,) if source is None else (source, output):
        found += _of_topic(topic)
    return tuple(found)


def _alone(plan: AuditPlan, output: TopicAudit, result: Comparison | Uniqueness) -> list[str]:
    sends = "" if plan.is_named else ", and one that was sent twice"
    found = [f"what should be there: without an input, a row that never came{sends} is not seen"]
    repeated = isinstance(result, Uniqueness) and result.repeated_rows
    if repeated and not output.sequences.finding_count:  # else they may be the same send
        found.append(
            f"{counted(repeated, 'row')} that equal an earlier one, each sent by itself: the log does "
            "not say whether that was meant, or a program ran under a second name"
        )
    if plan.is_named:
        found.append(f"what rows hold beside what names them ({plan.identity})")
    if output.is_log and output.is_compacted:
        found.append(f"whether the sequences of {output.name} are whole, for compaction takes rows")
    return found


def _of_rows(plan: AuditPlan, output: TopicAudit, contents: Contents | None) -> list[str]:
    if plan.known_by is By.LINEAGE:
        return [
            "what rows hold: a lineage header says which input row each came of, so an altered value is not seen",
            f"how many rows came of each input row: the header numbers them and does not say which is the last, so "
            f"{output.name} may lack the last of several",
            f"headers but semel-lineage, timestamps, and the partitions of {output.name} that rows lie in",
        ]
    if plan.known_by is By.PLACE:
        return _of_contents(plan, contents)
    found = []
    rules = plan.input_identity, plan.output_identity
    if rules != (IdentityRule(KeyFrom.ROW),) * 2:
        found.append(
            f"what rows hold beside what names them ({plan.identity}): an altered value is not seen there"
        )
    tables = [each for each in (plan.input_table, plan.output_table) if each is not None]
    if tables:
        found.append(f"columns of {' and '.join(each.name for each in tables)} that do not name rows")
    else:
        found.append("headers and timestamps of rows, and the partitions that they lie in")
    return found


def _of_contents(plan: AuditPlan, contents: Contents | None) -> list[str]:
    if contents is None:
        return ["what rows hold: they are known by their place alone"]
    alone = [] if contents.columns.names else ["what rows hold: they are known by their place alone"]
    table = plan.output_table or plan.input_table
    return [*alone, *contents.not_compared, *contents.grown("the table" if table is None else table.name)]


def _of_order(plan: AuditPlan, result: Comparison | Uniqueness) -> list[str]:
    if not plan.is_ordered:
        return ["the order of rows"]
    unordered = result.unordered_rows if isinstance(result, Comparison) else 0
    more = f", and of {counted(unordered, 'row')} without one" if unordered else ""
    return [f"the order of rows of different keys{more}"]


def _of_topic(topic: TopicAudit) -> list[str]:
    found = []
    starts = [f"{number}@{offset}" for number, offset in sorted(topic.log_start_offsets.items()) if offset]
    if starts:
        shown = ", ".join(starts[:_STARTS_SHOWN_MAX]) + ", …" * (len(starts) > _STARTS_SHOWN_MAX)
        found.append(
            f"what was before the start of {topic.name}, which begins at {shown} (partition@offset): it is gone"
        )
    if topic.is_compacted:
        found.append(f"what compaction took of {topic.name}")
    if topic.other_rows:
        found.append(f"{counted(topic.other_rows, 'row')} of {topic.name} that came of other topics")
    if topic.transactions is not None:
        found += [f"{text} in {topic.name}" for text in topic.transactions.not_compared()]
    return found
