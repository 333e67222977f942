"""How long it takes until something happens that may happen at any moment: the same on every machine.

``Random.expovariate`` asks the C library for a logarithm, whose last bit may be another one elsewhere; one such
bit moves an event by a millisecond, and with it the rest of a history. Throws of a die are the same everywhere.
"""

from __future__ import annotations

from random import Random
from typing import Final

_DIE_BITS: Final = 3


def drawn_wait_ms(random: Random, mean_ms: int) -> int:
    """At least 1, ``mean_ms`` more on average, at times several times as much."""
    throws = 0
    while random.getrandbits(_DIE_BITS):  # an eighth of the mean goes by at each throw
        throws += 1
    return 1 + (throws * mean_ms + random.randrange(2 * mean_ms) >> _DIE_BITS)
