"""The commands: noun, then verb; one file a noun. Data goes to stdout, notes to stderr.

Nothing heavy is imported before the command that needs it runs, so that ``semel --help`` stays instant.
"""
