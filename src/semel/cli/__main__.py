"""``python -m semel.cli``: the same as the ``semel`` script."""

from semel.cli.main import main

main()
