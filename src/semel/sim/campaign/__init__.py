"""From one seed to the proof.

simulation, coda   one seed: faults, healing, the end, and damage that voids a promise
invariants         all checkers of a seed
swarm, watchdog    many seeds, none of which may hang
seed_range, tally  a run of seeds that can be gone on with; the page of what they met
shrink, scenario   from a failing seed to the few faults that matter, as a file
proof              the page that says at which seed each planted bug is found
"""
