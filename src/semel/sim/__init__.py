"""A deterministic simulator: the real cores and the real storage under a seeded world of faults.

One seed is one whole history: a server process with its disk, its clients and the network between them, in
simulated time. Nothing here reads a clock, the system's randomness or a hash order, so a seed is its own
reproduction: the SHA-256 of its trace is the same on every machine.

    scheduler, trace      simulated time; what happened, hashed
    waiting               how long until what may happen at any moment
    faults                the mix that a seed draws, every fault by its number, and the count of what bit
    network, disk         the world: connections that break, sectors that are lost, bits that rot
    server, shell         the real broker and storage in one process after another on one machine
    process, session      a client process with its clock, and its connection
    surroundings          what every client needs of the world
    sending, cluster      the real pipeline and the real low-level client behind that session
    producer, resumer     writers without and with a saved position; prober, admin, consumer: the others
    fiber, sinks          blocking code in simulated time; Spark around the real shells of the exactly-once sink
    flows, copies         what runs a plan of the flow language; copies of topics, and the second cluster they need
    workload              who of them lives in this history
    witness, reference    what the checkers see of the server; the second opinion on every verdict
    room_settings         how many producers the server may remember: in some histories too few for all
    bound_witness, rooms  what the checkers see of that bound; the second opinion on the room kept for leases
    history, checkers     what was promised, and one file an invariant
    simulation, coda      one seed: faults, healing, the end, and damage that voids a promise
    rot_beside            ends after which nothing may be missing
    swarm, watchdog       many seeds, none of which may hang
    campaign, tally       a run of seeds that can be gone on with; the page of what they met
    shrink, scenario      from a failing seed to the few faults that matter, as a file
    planting, plants      the planted bugs; those of sinks, flows and copies are in their folders
    proof                 the page that says at which seed each is found
"""
