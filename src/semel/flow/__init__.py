"""Flows: the exactly-once patterns as one small language, run by Spark or in this process."""
