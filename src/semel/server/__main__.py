"""``python -m semel.server``."""

import sys

# kio registers strategies with hypothesis where it finds it: on a developer's machine that would cost each
# server a tenth of a second at its first request, and memory for good.
sys.modules["hypothesis"] = None  # type: ignore[assignment]

from semel.server.main import main  # noqa: E402

sys.exit(main())
