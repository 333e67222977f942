"""One audit from end to end: read the topics, compare them, name what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from semel.audit.checks import EXAMPLES_MAX_DEFAULT, compare, unique
from semel.audit.identity import IdentityRule, KeyFrom
from semel.audit.read import Progress, TopicReading, name_places, read_topic
from semel.audit.report import AuditReport
from semel.audit.rows import ROWS_MAX_DEFAULT
from semel.client.blocking import Cluster
from semel.errors import ConfigError

_BY_RECORD_KEY: Final = IdentityRule(KeyFrom.KEY)
_WHOLE_ROW: Final = IdentityRule(KeyFrom.ROW)


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


def audit(cluster: Cluster, plan: AuditPlan, progress: Progress | None = None) -> AuditReport:
    """Read and judge. Reads each topic once; the first findings once more, to name them."""
    began = time.monotonic()
    order = plan.order or _BY_RECORD_KEY

    def reading(topic: str, identity: IdentityRule, order: IdentityRule) -> TopicReading:
        return TopicReading(topic, identity, order, plan.rows_max, plan.examples_max)

    source = None
    if plan.input_topic is not None:
        source, source_rows = read_topic(
            cluster, reading(plan.input_topic, plan.input_identity, order), progress
        )
    output, output_rows = read_topic(
        cluster, reading(plan.output_topic, plan.output_identity, _BY_RECORD_KEY), progress
    )
    result = (
        unique(output_rows, examples_max=plan.examples_max)
        if source is None
        else compare(source_rows, output_rows, examples_max=plan.examples_max, order=plan.order is not None)
    )
    places = [place for finding in result.findings for place in finding.examples]
    rules = {True: plan.input_identity, False: plan.output_identity}
    return AuditReport(
        output=output,
        result=result,
        input=source,
        identity=str(plan.output_identity),
        names=name_places(cluster, places, plan.input_topic, plan.output_topic, rules),
        elapsed_ms=int((time.monotonic() - began) * 1000),
    )
