"""Decisions of the sequenced exactly-once sink: what may be written, skipped, decided, and when to stop.

Nothing here talks to a broker or to Spark. The shells in ``semel.spark`` carry the steps out, in the order
that the functions below give them: fence, then read, then scan, then begin, then write, then decide. What is
settled is swept behind BEGIN, and while the run goes on.
"""
