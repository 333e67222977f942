"""One audit from end to end: read the topics, compare them, name what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from semel.audit.checks import EXAMPLES_MAX_DEFAULT, compare, unique
from semel.audit.identity import IdentityRule, KeyFrom
from semel.audit.read import Progress, TopicReading, name_places, read_topic
from semel.audit.report import AuditReport, TopicAudit
from semel.audit.rows import ROWS_MAX_DEFAULT, RowIndex
from semel.client.blocking import Cluster
from semel.errors import ConfigError

_BY_RECORD_KEY: Final = IdentityRule(KeyFrom.KEY)
_WHOLE_ROW: Final = IdentityRule(KeyFrom.ROW)

Reading = tuple[TopicAudit, RowIndex]  # what read_topic gives


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to prove. Without an input: that the output repeats nothing and its sequences are whole."""

    output_topic: str
    input_topic: str | None = None
    output_identity: IdentityRule = _WHOLE_ROW
    input_identity: IdentityRule = _WHOLE_ROW
    order: IdentityRule | None = _BY_RECORD_KEY  # read from the input; None: order does not matter
    rows_max: int = ROWS_MAX_DEFAULT
    examples_max: int = EXAMPLES_MAX_DEFAULT

    def __post_init__(self) -> None:
        if self.input_topic == self.output_topic:
            raise ConfigError(f"input and output are both {self.output_topic!r}: nothing would be proven")
        if len(self.input_identity.fields) != len(self.output_identity.fields) and (
            self.input_identity.fields and self.output_identity.fields
        ):
            raise ConfigError("input and output must name a row by the same number of fields")

    def input_reading(self) -> TopicReading:
        """What to read of the input, which gives the order too."""
        assert self.input_topic is not None
        return self._reading(self.input_topic, self.input_identity, self.order or _BY_RECORD_KEY)

    def output_reading(self) -> TopicReading:
        """What to read of the output."""
        return self._reading(self.output_topic, self.output_identity, _BY_RECORD_KEY)

    def _reading(self, topic: str, identity: IdentityRule, order: IdentityRule) -> TopicReading:
        return TopicReading(topic, identity, order, self.rows_max, self.examples_max)


def audit(cluster: Cluster, plan: AuditPlan, progress: Progress | None = None) -> AuditReport:
    """Read and judge. Reads each topic once; the first findings once more, to name them."""
    began = time.monotonic()
    source = None if plan.input_topic is None else read_topic(cluster, plan.input_reading(), progress)
    report = judge(cluster, plan, source, read_topic(cluster, plan.output_reading(), progress))
    return replace(report, elapsed_ms=int((time.monotonic() - began) * 1000))


def judge(cluster: Cluster, plan: AuditPlan, source: Reading | None, output: Reading) -> AuditReport:
    """Hold what was read of the output against what was read of the input."""
    output_audit, output_rows = output
    result = (
        unique(output_rows, examples_max=plan.examples_max)
        if source is None
        else compare(source[1], output_rows, examples_max=plan.examples_max, order=plan.order is not None)
    )
    places = [place for finding in result.findings for place in finding.examples]
    rules = {True: plan.input_identity, False: plan.output_identity}
    return AuditReport(
        output=output_audit,
        result=result,
        input=None if source is None else source[0],
        identity=str(plan.output_identity),
        names=name_places(cluster, places, plan.input_topic, plan.output_topic, rules),
    )
