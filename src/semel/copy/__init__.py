"""``semel copy``: topics from cluster to cluster, each row once and in its order, killed anywhere (MirrorMaker's job).

The protocol is in :mod:`semel.core.copy`; here is what talks to the two clusters. Either may be semel or Apache Kafka.

:mod:`~semel.copy.plan` what a job is, :mod:`~semel.copy.log` its journal, :mod:`~semel.copy.takeover` how a copy comes
to hold it, :mod:`~semel.copy.topics` the topics at both ends, :mod:`~semel.copy.reading` what comes next of the
source, :mod:`~semel.copy.batches` what of a batch is copied, :mod:`~semel.copy.writing` how it gets to the
destination, :mod:`~semel.copy.groups` what consumer groups have read, :mod:`~semel.copy.run` the loop,
:mod:`~semel.copy.metrics` what it tells Prometheus.
"""

from semel.copy.plan import CopyPlan
from semel.copy.run import Copied, CopiedTopic, run_copy

__all__ = ["Copied", "CopiedTopic", "CopyPlan", "run_copy"]
