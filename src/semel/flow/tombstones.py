"""Where records without a value go: to the tables whose rows they delete, through the topics in between.

Whose row one deletes is said by its record key alone. So it goes on only where that is the table's key all the way:
the source is declared with the key, and each step behind it gives the rows that it was given, with the key's columns
in them. Elsewhere it is bad, and told with words that say why: a wrong guess would delete another row, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.core.flow.lineage import Dedupe
from semel.flow.plan import Tombstones
from semel.flow.tree import (
    KeyByNode,
    MergeNode,
    NamedNode,
    Node,
    SourceNode,
    StatefulNode,
    StatelessNode,
    TableNode,
)


class TombstonesOf:
    """What becomes of them at each of ``nodes``, parents first; ``same`` as :func:`semel.flow.tree.same_as` has it."""

    def __init__(self, nodes: Sequence[Node], same: Mapping[int, Node]) -> None:
        self._same = same
        self._raw: set[int] = set()  # nodes whose rows are a source's, or made of one by one
        self._carried: set[int] = set()  # of these, those that have its tombstones under their rows' key
        self._leading: set[int] = set()  # a table is made of their rows
        self._wanted: set[int] = set()  # and has the tombstones that they carry
        for node in nodes:
            self._come(node)
        for node in reversed(nodes):
            self._lead(node)

    def of(self, node: Node) -> Tombstones:
        """Of a stage that ends with ``node``."""
        known = id(self._same[id(node)])
        if known in self._carried and known in self._wanted:
            return Tombstones.PASSED
        if known in self._raw and known in self._leading:
            return Tombstones.UNKEYED
        return Tombstones.BAD

    def _come(self, node: Node) -> None:
        known = id(self._same[id(node)])
        if isinstance(node, SourceNode):
            self._raw.add(known)
            if node.shape.key is not None:
                self._carried.add(known)
        elif _gives_what_it_is_given(node):
            parents = [self._same[id(parent)] for parent in node.parents]
            if any(id(parent) in self._raw for parent in parents):
                self._raw.add(known)
            if any(id(parent) in self._carried and _keeps_key(parent, node) for parent in parents):
                self._carried.add(known)

    def _lead(self, node: Node) -> None:
        known = id(self._same[id(node)])
        if isinstance(node, TableNode):
            self._leading.add(known)
            self._wanted.add(known)
        if not _gives_what_it_is_given(node):
            return
        parents = {id(self._same[id(parent)]) for parent in node.parents}
        if known in self._leading:
            self._leading |= parents
        if known in self._wanted and known in self._carried:
            self._wanted |= parents


def _gives_what_it_is_given(node: Node) -> bool:
    if isinstance(node, StatefulNode):
        return isinstance(node.spec, Dedupe)
    return isinstance(node, StatelessNode | KeyByNode | NamedNode | MergeNode | TableNode)


def _keeps_key(parent: Node, node: Node) -> bool:
    return parent.shape.key == node.shape.key and node.shape.is_key_in_columns
