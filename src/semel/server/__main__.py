"""``python -m semel.server``."""

import sys

from semel.server.main import main

sys.exit(main())
