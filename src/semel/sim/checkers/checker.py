"""What each checker is: it watches what its invariant needs, and judges; it never repairs."""

from __future__ import annotations

import re
from typing import ClassVar

from semel.sim.world.history import Violation


class Checker:
    """Of one invariant, whose name is the class's in lower case: so reports and docstrings call it."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def violated(self, evidence: str) -> Violation:
        """To be raised: the invariant falls."""
        return Violation(self.name, evidence)
