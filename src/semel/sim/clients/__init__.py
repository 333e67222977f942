"""The simulated clients: the real pipeline and the real low-level client behind a simulated connection.

session            a connection: requests numbered, answers matched, time-outs
cluster, sending   the real low-level client and the real pipeline over it
producer, resumer  writers without and with a saved position
lessee, prober     who goes by the server's word alone, and who sends sequences as it likes
consumer, admin    who reads, trims and fences
workload           who of them lives in this history
"""
