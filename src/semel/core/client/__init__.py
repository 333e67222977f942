"""The client's decisions, without I/O: batching, order, retries, error fates, resume."""
