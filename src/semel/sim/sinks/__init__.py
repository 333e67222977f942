"""The exactly-once sink in simulated time: Spark's drivers and task attempts, around the real shells of the sink.

Spark itself is simulated: what a driver keeps in its checkpoint, which attempts of a task it starts, kills, gives
up or doubles, and what is left of it when it dies. What a planner, a task and a commit do is ``semel.spark``'s
own code, in a fiber each, on the simulated network.

    story           one sink: its source's rows, its outputs, and what was done to it
    checkpoint      what Spark keeps on a disk of its own
    worker          one Python process of Spark's
    task_set        the attempts of one micro-batch's tasks
    driver          one life of a query
    view            what lies in its outputs and in the decision log
    watcher         what may be watched of it
    checkers        the invariants
    trimmer         who trims its outputs
    forgetter       who makes the server forget its name
    log_compaction  in which histories the decision log is compacted, and how
    operator        who starts drivers again, and what he does to their checkpoints
"""
