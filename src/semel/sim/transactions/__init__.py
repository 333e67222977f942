"""Transactions in the simulator: clients with transactional ids, readers of both kinds, and what is asked of both.

drawing     which seeds have any, and which
story       what was sent, asked, told and read: what the checkers know
log         what the server's logs add up to, record by record
ledger      beside the witness of a server: it fills the log
watcher     what may be watched of them
requests    what a client asks, one request after another
taking      what a reader makes of a fetch
client      a process that reads, writes and commits in transactions
reader      a process that reads what is committed, or all
operator    who runs them, and does to them what happens to processes
world       all of it, of one history
checkers    the invariants
anomalies   Jepsen's, looked for in the histories of sends and polls
plants      bugs on purpose
"""
