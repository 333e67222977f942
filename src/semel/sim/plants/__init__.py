"""The planted bugs; those of sinks, flows and copies are in their rooms.

planting              how a bug is planted, and taken out again
catalogue             all of them, and those of the log
client, lease, bound  those of the producer, of leases, of the bound on producers
"""
