"""One file an invariant; the name of the file is the name that docstrings and reports use.

A checker watches (``read``, ``answered`` …) and judges whole logs (``logs``): after every recovery, and at
the end. It raises :class:`~semel.sim.world.history.Violation` and never repairs.
"""
