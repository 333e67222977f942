"""A deterministic simulator: the real cores and the real storage under a seeded world of faults.

One seed is one whole history: a server process with its disk, its clients and the network between them, in
simulated time. Nothing here reads a clock, the system's randomness or a hash order, so a seed is its own
reproduction: the SHA-256 of its trace is the same on every machine.

    scheduler, trace      simulated time; what happened, hashed
    faults                the mix that a seed draws, and the count of what bit
    network, disk         the world: connections that break, sectors that are lost
    server, client        processes: the real decisions, behind a simulated socket and disk
    history, checkers     what was promised, and one file an invariant
    simulation, swarm     one seed; many seeds
"""
