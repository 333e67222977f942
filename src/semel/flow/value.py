"""A flow: outputs with all that is in front of them, under one name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from semel.flow import checks
from semel.flow.calls import Call
from semel.flow.tree import OutputNode, Site

if TYPE_CHECKING:
    from pathlib import Path

    from semel.flow.plan import Plan
    from semel.flow.run import Running


@dataclass(frozen=True, eq=False)
class Flow:
    """What ``to`` and :func:`flow` give. It is planned, and so judged as a whole, when it is made."""

    name: str
    outputs: tuple[OutputNode, ...]
    site: Site

    def __post_init__(self) -> None:
        self.plan()

    @classmethod
    def of_topic(cls, topic: str, output: OutputNode) -> Flow:
        """The flow of one output, named after its topic.

        What no name can have is changed, and then a sum over the topic's own name stands behind it: ``a.b`` and ``a-b``
        are two flows, and with one name the second would go on where the first has decided to.
        """
        name = topic.replace(".", "-")
        if name != topic or len(name) > checks.NAME_CHARS_MAX:
            told_apart = f"-{crc32(topic.encode()):08x}"
            name = name[: checks.NAME_CHARS_MAX - len(told_apart)] + told_apart
        return cls(name, (output,), output.site)

    def named(self, name: str) -> Flow:
        """Under another name: that of its sinks and of its own topics. It is another flow, which begins anew."""
        call = Call.here("named", name)
        why = checks.name_error(name)
        if why is not None:
            raise call.refuse(why, checks.NAME_ADVICE)
        return replace(self, name=name, site=call.site)

    def plan(self) -> Plan:
        """The stages that it is cut into; needs neither Spark nor a server."""
        from semel.flow.planner import plan_flow

        return plan_flow(self.name, self.outputs)

    def explain(self) -> str:
        """Its stages: what each reads and writes, the pattern that makes it exactly once, and why that one."""
        from semel.flow.explain import explain_text

        return explain_text(self.plan())

    def run(
        self,
        bootstrap: str,
        *,
        spark: Any = None,
        here: bool = False,
        once: bool = False,
        show: bool = True,
        metrics: str | None = None,
        store: Path | None = None,
    ) -> None:
        """Run it on the server at ``bootstrap`` (``"localhost:9092"``) until it is stopped: SIGTERM, or Ctrl-C.

        It ends behind the micro-batch that it is in, and the next run goes on there. ``once``: to the end of what its
        topics have now. ``here``: in this process, where no step is Spark's. ``spark``: a session of yours. ``show``:
        a line for each stage while it works; ``metrics``: the same for Prometheus, on ``"host:port"``. ``store``: the
        folder for large state on each machine.
        """
        from semel.flow.run import run_flow

        run_flow(
            self.plan(),
            bootstrap,
            spark=spark,
            here=here,
            once=once,
            show=show,
            metrics=metrics,
            store=store,
        )

    def start(
        self,
        bootstrap: str,
        *,
        spark: Any = None,
        here: bool = False,
        once: bool = False,
        show: bool = True,
        metrics: str | None = None,
        store: Path | None = None,
    ) -> Running:
        """As :meth:`run`, without waiting: for notebooks. Returns a handle with ``wait``, ``stop`` and ``progress``."""
        from semel.flow.run import start_flow

        return start_flow(
            self.plan(),
            bootstrap,
            spark=spark,
            here=here,
            once=once,
            show=show,
            metrics=metrics,
            store=store,
        )


def flow(name: str, *outputs: Flow) -> Flow:
    """Several outputs as one flow: what is equal in front of them is done once."""
    call = Call.here("flow", name, *outputs)
    why = checks.name_error(name)
    if why is not None:
        raise call.refuse(why, checks.NAME_ADVICE)
    if not outputs:
        raise call.refuse("it has no output", 'End a stream with .to("topic"), and hand that over')
    for output in outputs:
        if not isinstance(output, Flow):
            raise call.refuse(
                f"a {type(output).__name__} is no output",
                'End it with .to("topic")',
            )
    return Flow(name, tuple(node for output in outputs for node in output.outputs), call.site)
