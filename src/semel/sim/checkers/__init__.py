"""The invariants of the log, of producers and of their leases, and what checkers may watch for them.

Those of sinks, flows and copies are in their rooms; ``campaign/invariants.py`` has them all.

checker           what each of them is
watchers          what may be watched, by subject
logs              what lies in a log, and what its readers see
acknowledgements  what clients were told of their records and offsets
producers         verdicts on batches, and the right to write
leases            how long a lease lives
bound             how many producers a server remembers, and whom it has no room for
recovery          what a start finds, and what a healed world comes to
"""
