"""Flows in simulated time: drivers and tasks of their stages, around the real shells of flows.

What plans a stage's micro-batches, a task, and a commit are ``semel.flow``'s and ``semel.spark``'s own code, in a fiber
each, on the simulated network. A driver has no checkpoint: whenever one starts it is a new query, with other cuts.

    steps         what the simulated flows do: the product's steps, and their meaning in plain words
    story         one flow: its stages, its topics, and what was done to it
    stories       the flows of a history, and its sinks
    feeder        who writes the rows of its sources
    machines      the folders in which tasks keep large state
    driver        one life of a stage's query
    operator      who starts drivers again, and mends steps that fail
    trimmer       who keeps the changelogs short
    recorded      what is found in its topics, as values
    replay        what the recorded inputs give
    view          what lies in the topics of one flow
    watcher       what may be watched of it
    checkers      the invariants
"""
