"""The decisions of flows: recorded order, state that is the decided end's, and the steps between; no I/O."""
