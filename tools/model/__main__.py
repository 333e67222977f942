"""``python -m tools.model [-v] [WORDS]``; see :func:`tools.model.run.main`."""

import sys

from tools.model.run import main

sys.exit(main(sys.argv[1:]))
