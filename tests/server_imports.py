"""What a server has imported when it has served its first requests; see ``tests/forked.py``."""

import sys

sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as semel.server.__main__ does, before kio looks for it

import semel.server.main  # noqa: E402, F401
