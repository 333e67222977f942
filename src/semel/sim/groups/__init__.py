"""Consumer groups in the simulator: the server's real coordinator between members that come, go and are forgotten.

story, drawing      which groups there are, of which topics, and with which patience; which seeds have any
assignment          what members say that they read, and what their leader makes of it
requests, member    a consumer's way through its group, with everything that may go wrong on it
operator            who starts members and ends them, in order or not, and what becomes of groups and topics meanwhile
ledger              what the coordinator has written, as it is written
watcher, checkers   what may be seen of groups, and the invariants that are judged by it
world               all of it, for one history
plants              bugs on purpose
"""
