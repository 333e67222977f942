"""The simulated server: the real broker and storage, in one process after another on one machine.

machine, shell               what stays and what ends with a process
witness, reference           what the checkers see of it; the second opinion on every verdict
bound_witness, lease_rooms   the same of its bound on producers; the second opinion on the room kept for leases
batch_limit, topic_codec,
  room_settings              what some histories set otherwise than most
rot_beside                   ends of a history after which nothing may be missing
verdicts                     what must have been said at least once in a long run
"""
