"""Copies in simulated time: two clusters, and jobs of ``semel copy`` between them around their real shells.

A copy is a process of its own, in which ``run_copy`` runs in a fiber; it has a session to each cluster, and is the
only one that has. One of the two is the server that all other histories have, with its clients and its laws; the other
one lives beside it, with faults of the same kinds.

    drawing         which seeds have copies, and which
    second          the second cluster
    sites           source and destination
    story           the topics, the jobs, and what was done to them
    feeder          who writes the rows of the source
    life            one copy of a job: a process, and what becomes of it
    operator        who starts copies again, and does to them what people do
    upheavals       what becomes of the topics at both ends
    ledger          what was ever seen in the topics of a site
    view            what the logs and the journal of a job add up to
    watch           who sees both sites, and what may be watched of copies
    checkers        the invariants
"""
