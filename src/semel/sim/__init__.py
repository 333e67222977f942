"""A deterministic simulator: the real cores and the real storage under a seeded world of faults.

One seed is one whole history: a server process with its disk, its clients and the network between them, in
simulated time. Nothing here reads a clock, the system's randomness or a hash order, so a seed is its own
reproduction: the SHA-256 of its trace is the same on every machine.

    world                 time, faults, network, disk, processes: what everything else lives in
    server                one machine with the real broker and storage, and what the checkers see of it
    clients               who writes, reads and manages, around the real client
    sinks, flows, copies  the exactly-once sink, what runs a plan of the flow language, copies of topics: each around
                          its real shells, with its own invariants and planted bugs
    checkers              what may be watched of a history, and the invariants of logs, producers and leases
    plants                the planted bugs: how they are planted, and all of them
    campaign              one seed, many seeds, from a failing seed to a scenario, and the pages of the documentation
"""
