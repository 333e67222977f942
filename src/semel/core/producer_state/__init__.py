"""Who wrote what to a partition, and whether a batch that arrives now is new, a duplicate, or refused."""
